"""What is done with fronts that exist: compare them, test differences, choose a solution."""
