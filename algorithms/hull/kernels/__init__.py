"""Compiled pieces of convex-hull evolution."""
