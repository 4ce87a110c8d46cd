"""Test functions with known fronts."""
