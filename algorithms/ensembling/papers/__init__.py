"""What the experiments of the HAPEns paper add to the report of a comparison."""
