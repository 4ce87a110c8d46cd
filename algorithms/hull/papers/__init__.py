"""What the experiments of the 3DFCH-EMOA paper alone need: peers, functions, indicators, pages."""
