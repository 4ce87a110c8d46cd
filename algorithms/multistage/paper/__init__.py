"""What the experiments of the EMSCO paper add to comparisons: indicators, claims and figures."""
