"""A package that knows paretolab and that paretolab does not know."""
