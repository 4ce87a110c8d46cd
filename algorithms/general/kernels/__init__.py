"""Compiled parts of the general searches."""
