"""MLflow, figures and sweeps: packages that follow runs and read their directories."""
