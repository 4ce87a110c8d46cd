"""Figures of fronts, runs and comparisons: HTML pages that need no network, and PNG."""
