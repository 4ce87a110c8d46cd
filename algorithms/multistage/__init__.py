"""Multi-stage classifiers with early exit and a terminal reject: EMSCO, exact, baselines."""
