"""Budgeted classifiers that a multi-stage search has to beat, and one measure for all of them."""
