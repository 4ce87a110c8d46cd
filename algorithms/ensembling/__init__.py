"""Weighted ensembles of a library: how often each model is picked (HAPEns and its rivals)."""
