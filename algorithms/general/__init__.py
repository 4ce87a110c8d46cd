"""Searches for any family: they run on every problem whose space they declare."""
