"""Searches over ensembles: how often each model of a library is picked."""
