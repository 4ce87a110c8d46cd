"""How much of anything is taken: far above what anyone needs, far below what breaks a machine."""

from __future__ import annotations

JSON_BYTES = 64 * 10**6
"""Of a JSON file, such as ``model.json`` or the schema of an estimator."""

JSON_DEPTH = 100
"""Levels of lists and mappings in each other, in JSON and in YAML."""

ESTIMATOR_BYTES = 4 * 10**9
"""Of a file of an estimator, unpacked."""

CONFIG_BYTES = 4 * 10**6
"""Of a YAML file."""
