"""What only the EMSCO paper's experiments need: baselines, their tuning, figures and claims."""
