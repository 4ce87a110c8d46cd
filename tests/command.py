"""The installed command, run as its users run it, on configurations of a second or two."""

from __future__ import annotations

import copy
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import yaml

PROGRAM = Path(sys.executable).parent / "paretolab"

SMALL = {
    "name": "small",
    "problem": {
        "kind": "multistage",
        "dataset": {"synthetic": {"samples": 240, "features": 6, "informative": 6, "seed": 2}},
        "measure": {"kind": "holdout"},
        "costs": {"values": [1, 2, 3, 4, 5, 6.5]},
        "threshold": 0.8,
        "max_stages": 4,
    },
    "objectives": [
        {"metric": "coverage", "sense": "max"},
        {"metric": "accuracy", "sense": "max"},
        {"metric": "cost", "sense": "min"},
    ],
    "algorithm": {"kind": "emsco", "population": 30},
    "budget": {"generations": 4},
    "workers": "serial",
    "tracking": None,
}


def small(**changes):
    """Return the small configuration with dotted keys changed (``__`` for the dot)."""
    config = copy.deepcopy(SMALL)
    for key, value in changes.items():
        *path, last = key.split("__")
        node = config
        for step in path:
            node = node[step]
        node[last] = value
    return config


def write(path, config):
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def environment(**variables):
    """Return the environment for a command: no data folder, no colours."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PARETOLAB_DATA", "RAY_ADDRESS")}
    return {**kept, "NO_COLOR": "1", "OMP_NUM_THREADS": "1", **variables}


def start(*arguments, cwd, env=None, **more):
    """Start the command; return the process."""
    return subprocess.Popen(
        [str(PROGRAM), *map(str, arguments)],
        cwd=cwd,
        env=environment(**(env or {})),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **more,
    )


def call(*arguments, cwd, env=None, timeout=300, **more):
    """Run the command to its end; return the process with ``code``, ``out`` and ``err`` set."""
    process = start(*arguments, cwd=cwd, env=env, **more)
    process.out, process.err = process.communicate(timeout=timeout)
    process.code = process.returncode
    return process


def rows(journal):
    """Return the first id and the number of rows of each batch of a journal."""
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as db:
        return db.execute("SELECT first_id, rows FROM batches ORDER BY batch").fetchall()


def assert_each_row_once(journal):
    """Check that the ids of a journal are 0, 1, 2, ... without a gap or a repetition."""
    ids = [np.arange(first, first + n) for first, n in rows(journal)]
    assert np.array_equal(np.concatenate(ids), np.arange(sum(n for _, n in rows(journal))))
