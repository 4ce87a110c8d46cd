"""Test functions, most with known fronts."""
