"""Searches over ensembles, and what they are made of."""
