"""Deployable models: how they are kept, described, and asked."""
