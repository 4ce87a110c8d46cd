"""Ensemble pruning: the best subset of fitted classifiers and its vote threshold."""
