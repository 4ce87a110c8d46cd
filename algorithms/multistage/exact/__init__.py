"""The exact front: enumeration for few stages, dynamic programming for many, bounds beyond."""
