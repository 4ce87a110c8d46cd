"""Finished fronts: compare them, test their differences, choose a solution."""
