"""Cascades: which of several priced models to ask, in which order, and when to believe one."""
