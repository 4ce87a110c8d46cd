"""Nodes that have the dependencies and not paretolab: everything works there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clusters.machines import Machines, lacks
from tests.command import POINT, call, write
from tests.outside.test_package import CONFIG as VOTES
from tests.outside.test_package import install
from tests.parallel.test_cluster import PARALLEL

SWEPT = PARALLEL | {
    "name": "swept",
    "sweep": {
        "search_space": {"algorithm.batch": {"low": 5, "high": 40}},
        "directions": [{"metric": "hypervolume", "sense": "max"}],
        "trials": 3,
        "batch": 3,
        "sampler": "random",
    },
}
COMPARED = POINT | {
    "name": "compared",
    "workers": "auto",
    "budget": {"generations": 2},
    "experiment": {
        "methods": {"coarse": {"kind": "random", "batch": 20}, "fine": {"kind": "random"}},
        "repeats": 2,
    },
}
POOL = {
    "library": {
        "name": "few",
        "dataset": {"synthetic": {"samples": 120, "features": 4, "informative": 4, "seed": 2}},
        "models": 4,
        "measured": False,
        "keep_models": False,
    }
}


def test_the_environment_of_the_nodes_lacks_paretolab(bare: Path) -> None:
    for module in ("paretolab", "framework", "algorithms", "tracking"):
        assert lacks(bare, module)
    assert not lacks(bare, "ray")


@pytest.mark.slow
def test_a_sweep_on_bare_nodes(machines: Machines, tmp_path: Path) -> None:
    """Trials are made of names, so their entry points must be there, too."""
    machines.join(2)
    write(tmp_path / "swept.yaml", SWEPT)
    words = ("sweep", "swept.yaml", "--out", "far", "--workers", 2)
    done = machines.call(*words, cwd=tmp_path, code=0)
    assert "trials run on Ray at" in done.err
    summary = json.loads((tmp_path / "far" / "summary.json").read_text())
    assert (summary["status"], summary["trials_complete"]) == ("done", 3)
    assert len(fronts(tmp_path / "far")) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "command"),
    [
        (PARALLEL, ["run"]),
        (PARALLEL, ["run", "--repeats", "3"]),
        (SWEPT, ["sweep"]),
        (COMPARED, ["experiment"]),
        (POOL, ["library", "build"]),
    ],
    ids=["run", "repeats", "sweep", "experiment", "library"],
)
def test_all_else_on_bare_nodes(machines, tmp_path, config, command):
    machines.join(2)
    file = write(tmp_path / "config.yaml", config)
    head, options = [c for c in command if c.isalpha()], [c for c in command if c[0] == "-"]
    values = command[len(head) :]
    assert len(options) * 2 == len(values)
    words = (*head, file, *values)
    done = machines.call(*words, "--out", "far", "--workers", 2, cwd=tmp_path, code=0)
    assert "Ray at" in done.err
    call(*words, "--out", "near", "--workers", "serial", cwd=tmp_path, code=0)
    assert fronts(tmp_path / "far") == fronts(tmp_path / "near")


@pytest.mark.slow
def test_an_installed_plugin_travels(machines: Machines, tmp_path: Path) -> None:
    """Installed for the driver alone: a problem and a search of another package."""
    site = tmp_path / "site"
    install(site, tmp_path)
    machines.join(2)
    write(tmp_path / "votes.yaml", VOTES | {"repeats": 2, "tracking": None})
    env = {"PYTHONPATH": str(site)}
    command = ("run", "votes.yaml", "--workers")
    machines.call(*command, 2, "--out", "far", cwd=tmp_path, env=env, code=0)
    call(*command, "serial", "--out", "near", cwd=tmp_path, env=env, code=0)
    assert fronts(tmp_path / "far") == fronts(tmp_path / "near")


def fronts(folder: Path) -> dict[str, bytes]:
    """Return what was found, by place: fronts of runs, arrays of a library."""
    found = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for pattern in ("front.csv", "*.npy")
        for path in folder.rglob(pattern)
    }
    assert found
    return found
