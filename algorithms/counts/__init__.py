"""Moves on count vectors and on subsets, for searches that know several spaces."""
