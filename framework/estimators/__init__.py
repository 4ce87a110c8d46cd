"""What all estimators that search have in common: the same words, front, choice and model."""
