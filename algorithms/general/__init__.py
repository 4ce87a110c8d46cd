"""Searches that know no family: they run on every problem whose space they declare."""
