"""What only the experiments of the pruning paper need: baselines, the printed program, pages."""
