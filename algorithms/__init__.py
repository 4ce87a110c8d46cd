"""A folder a family: problem, kernels, searches, deployable model, baselines."""
