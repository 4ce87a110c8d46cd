"""Making libraries of fitted models, bringing them from elsewhere, and finding them again."""
