"""The ``paretolab`` command."""
