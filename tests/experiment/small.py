"""An experiment of a second: two searches on two test functions, three seeds each."""

from __future__ import annotations

import copy

import yaml

RAW = {
    "name": "little",
    "problem": {"kind": "function", "name": "zdt1", "d": 4},
    "objectives": [{"metric": "f1", "sense": "min"}, {"metric": "f2", "sense": "min"}],
    "budget": {"evaluations": 60},
    "workers": "serial",
    "tracking": None,
    "experiment": {
        "cases": {"convex": {"problem.name": "zdt1"}, "concave": {"problem.name": "zdt2"}},
        "methods": {
            "by tens": {"kind": "random", "batch": 10},
            "grid*": {"kind": "random", "batch": 15, "sampling": "uniform"},
        },
        "repeats": 3,
    },
}


def raw(**changes):
    """Return the file's content; ``changes`` are keys of section ``experiment``."""
    content = copy.deepcopy(RAW)
    content["experiment"] |= changes
    return content


def write(folder, content, name="little.yaml"):
    path = folder / name
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path
