"""What the experiments of the 3DFCH-EMOA paper add to the report of a comparison."""
