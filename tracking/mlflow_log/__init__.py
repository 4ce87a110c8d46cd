"""MLflow: run directories uploaded by a process of their own, models, pages."""
