"""Compiled inner loops. Each has a slow, obvious twin in ``tests/oracles.py``."""
