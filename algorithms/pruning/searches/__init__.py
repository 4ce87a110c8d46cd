"""Searches over prunings: exact ones, and the named rules of the literature."""
