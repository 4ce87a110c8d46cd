"""What every search shares: contracts, evaluation, journal, fronts, the command."""
