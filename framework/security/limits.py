"""Limits of the size of any input: far above what anyone needs, far below what a machine has."""

from __future__ import annotations

JSON_BYTES = 256 * 10**6
"""Size of a JSON file, such as ``model.json``, or of the schema of an estimator."""

JSON_DEPTH = 100
"""Levels of nested lists and mappings, in JSON and in YAML."""

TREE_VALUES = 50 * 10**6
"""Values in a JSON file, and in a YAML file with its aliases written out."""

ESTIMATOR_BYTES = 4 * 10**9
"""Size of the file of an estimator, unpacked."""

ARRAY_BYTES = 10**11
"""Size of an array of a library, which is never in memory as a whole."""

CONFIG_BYTES = 10**6
"""Size of a YAML file."""

CONFIG_VALUES = 10**5
"""Values in a YAML file with its aliases written out: reading them takes some seconds."""

CONFIG_TEXT = 4096
"""Characters of a text or a key in a YAML file: as many as in the longest path on Linux."""

CASES = 10**5
"""Cases of an experiment, which are checked one by one."""

TABLE_BYTES = 10**9
"""Size of a CSV file, unpacked."""

UNPACKED_BYTES = 10**8
"""Size to which any compressed file may unpack, however small it is."""

UNPACKED_TIMES = 100
"""Times its own size to which a larger compressed file may unpack."""

TABLE_CELLS = 5 * 10**8
"""Rows times columns of a table that is read or generated."""

SIZES = {
    "archive": 10**7,
    "batch": 10**6,
    "classes": 10**4,
    "clusters_per_class": 10**4,
    "d": 10**6,
    "features": 10**5,
    "folds": 10**3,
    "hidden_layer_sizes": 10**5,
    "iterations": 10**7,
    "max_bin": 10**5,
    "max_iter": 10**7,
    "models": 10**4,
    "n_estimators": 10**5,
    "n_jobs": 2**10,
    "neighbours": 10**6,
    "num_parallel_tree": 10**5,
    "perturbation": 10**3,
    "population": 10**6,
    "repeats": 10**4,
    "samples": 10**7,
    "trials": 10**5,
    "workers": 10**4,
}
"""The largest number under a key of a configuration, also in a list, wherever the key stands."""
