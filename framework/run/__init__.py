"""The one loop of every search: driver, evaluators, interruption."""
