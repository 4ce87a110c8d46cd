"""Evaluation by Ray actors, and the choice whether that pays."""
