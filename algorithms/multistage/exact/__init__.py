"""The exact front: enumeration, a dynamic programme where stages are many, bounds where neither ends."""
