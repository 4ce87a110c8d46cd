"""Branch and bound on merged vote patterns."""
