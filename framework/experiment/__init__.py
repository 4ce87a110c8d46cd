"""Running a configuration: directories of runs and their repeats, resuming, exported models."""
