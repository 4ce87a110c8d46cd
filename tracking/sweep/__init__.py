"""Parameter sweeps with Optuna: trials are ordinary runs."""
