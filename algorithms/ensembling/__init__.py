"""Weighted ensembles of the models in a library: HAPEns and other searches."""
