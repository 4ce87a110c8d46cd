"""Libraries of fitted models: building them, importing them, and reading them."""
