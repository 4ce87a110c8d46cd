"""Data sets, splits, feature costs and the encoding of features."""
