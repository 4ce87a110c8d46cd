"""An experiment of a second: two searches on two test functions, three seeds each."""

import copy

from tests import command

RAW = command.POINT | {
    "name": "little",
    "budget": {"evaluations": 60},
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
    return command.write(folder / name, content)
