"""Searches that convex-hull evolution is compared with, written from their papers."""
