"""Multi-stage classifiers with early exit and a terminal reject (EMSCO and its rivals)."""
