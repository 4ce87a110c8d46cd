"""From a configuration to run directories: one run, its repeats, resumption, export."""
