"""Deployable models: how they are saved, described and used."""
