"""Searches over weighted ensembles, and their parts."""
