"""Convex-hull evolution: fronts of which only the corners of their convex hull matter."""
