"""What follows runs and reads their directories: MLflow, figures, sweeps."""
