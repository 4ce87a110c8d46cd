"""Killed at random moments, from the first millisecond on: always resumable, the same bytes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from framework.libraries.library import Library
from tests.command import POINT, PROGRAM, TOY, environment, small, write
from tests.made_up_libraries import made_up

ROOT = Path(__file__).parents[1]
SEARCH = {"algorithm": {"kind": "nsga2", "population": 30}, "budget": {"generations": 8}}
OF_LIBRARY = {"workers": "serial", "tracking": None}
SCENARIOS = {
    "multistage": ["run", small(budget__generations=8)],
    "ensembling": [
        "run",
        OF_LIBRARY
        | {
            "name": "ensembling",
            "problem": {"kind": "ensemble", "library": {"path": "library"}},
            "objectives": [
                {"metric": "roc_auc", "sense": "max"},
                {"metric": "inference_time", "sense": "min"},
            ],
            **SEARCH,
        },
    ],
    "pruning": [
        "run",
        OF_LIBRARY
        | {
            "name": "pruning",
            "problem": {"kind": "pruning", "library": {"path": "library"}},
            "objectives": [
                {"metric": "accuracy", "sense": "max"},
                {"metric": "members", "sense": "min"},
            ],
            **SEARCH,
        },
    ],
    "hull": [
        "run",
        POINT
        | {
            "name": "hull",
            "problem": {"kind": "function", "name": "zejd1"},
            "objectives": [{"metric": name, "sense": "min"} for name in ("f1", "f2", "f3")],
            "algorithm": {"kind": "fch_emoa", "population": 20},
            "budget": {"evaluations": 150},
        },
    ],
    "sweep": [
        "sweep",
        TOY
        | {
            "budget": {"generations": 3},
            "sweep": {
                "search_space": {"algorithm.batch": {"low": 2, "high": 60, "log": True}},
                "directions": [{"metric": "hypervolume", "sense": "max"}],
                "trials": 5,
                "batch": 2,
            },
        },
    ],
    "experiment": [
        "experiment",
        POINT
        | {
            "budget": {"evaluations": 300},
            "experiment": {
                "cases": {"four": {}, "three": {"problem.d": 3}},
                "methods": {"random": {"kind": "random"}, "evolved": {"kind": "nsga2"}},
                "repeats": 2,
            },
        },
    ],
    "repeats": ["run", small(budget__generations=3, repeats=3)],
}


class Forks:
    """Commands in forks of one process; see :mod:`tests.killing.forks`."""

    def __init__(self, cache: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.killing.forks"],
            cwd=ROOT,
            env=environment(PARETOLAB_CACHE=str(cache)),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        return self._process.stdout.readline().strip()

    def __call__(self, folder: Path, *arguments: object, after: float | None = None) -> int:
        """Run a command, and kill it after so many seconds; return its exit code."""
        line = json.dumps([str(folder), *map(str, arguments)])
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        child = int(self._line())
        if after is not None:
            time.sleep(after)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        return int(self._line())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    made = Forks(tmp_path_factory.mktemp("cache"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    library = made_up(k=8)
    labels = np.array(library.classes, dtype=object)
    Library.from_arrays(
        library.ids,
        library.validation,
        labels[library.y_validation],
        library.classes,
        library.costs,
        test=library.test,
        y_test=labels[library.y_test],
    ).save(folder / "library")
    for name, (_, config) in SCENARIOS.items():
        write(folder / f"{name}.yaml", config)
    return folder


def contents(directory):
    """Return the bytes of every front, and of the tables of sweeps and experiments."""
    kept = ("front.csv", "trials.csv", "results.csv")
    found = {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.name in kept
    }
    assert found
    return {name: untimed(name, content) for name, content in found.items()}


def untimed(name, content):
    """Leave out columns of seconds, which are those of the clock."""
    if name.endswith("front.csv"):
        return content
    header, *rows = (line.split(",") for line in content.decode().splitlines())
    kept = [i for i, column in enumerate(header) if "second" not in column]
    return [[row[i] for i in kept] for row in (header, *rows)]


def assert_whole(folder, out):
    """Every directory that is there can be resumed; of others nothing is seen."""
    made = [out] if out.exists() else []
    for pattern in ("repeats/*", "trials/*", "cells/*/*/*"):
        made += [path for path in out.glob(pattern) if not path.name.startswith(".")]
    for directory in made:
        assert (directory / "config.yaml").is_file(), f"{directory}: {list(directory.iterdir())}"
    assert not list(folder.rglob("*.torn"))


def kill_and_compare(name, kills, seed, place, run, whole, seconds, *options):
    """Kill a run so many times, go on each time, and compare with one that nobody killed."""
    rng, (command, _) = random.Random(f"{name} {seed}"), SCENARIOS[name]
    done = 0
    for round in range(10**6):
        out = place / f"{name} {seed} {round}"
        while done < kills:
            word = ["resume", out] if out.exists() else [command, f"{name}.yaml", "--out", out]
            # half of them in the first tenth, where directories come into being
            moment = rng.random() * seconds * rng.choice([0.1, 1.0])
            code = run(place, *word, *options, "--quiet", after=moment)
            assert_whole(place, out)
            if code != -signal.SIGKILL:
                assert code == 0, (place / "output.txt").read_text()
                break
            done += 1
        word = ["resume", out] if out.exists() else [command, f"{name}.yaml", "--out", out]
        assert run(place, *word, *options, "--quiet") == 0, (place / "output.txt").read_text()
        assert_whole(place, out)
        assert contents(out) == whole, f"{name}, seed {seed}, round {round}"
        if done >= kills:
            return


@pytest.mark.parametrize(
    ("kills", "seed", "name"),
    [
        pytest.param(2, 0, "multistage", marks=pytest.mark.slow),
        (2, 0, "experiment"),
        *(pytest.param(25, 1, name, marks=pytest.mark.slow) for name in SCENARIOS),
    ],
)
def test_in_this_process(name, kills, seed, place, forks):
    whole = place / f"whole {name} {seed}"
    more = ["--no-plots"] if SCENARIOS[name][0] == "run" else []
    seconds = 2.0
    for out in (place / f"{whole.name} before", whole):  # the first one may compile
        command = SCENARIOS[name][0], f"{name}.yaml", "--out", out, "--quiet", *more
        started = time.perf_counter()
        assert forks(place, *command) == 0, (place / "output.txt").read_text()
        seconds = min(seconds, time.perf_counter() - started)
    kill_and_compare(name, kills, seed, place, forks, contents(whole), seconds, *more)


def new_process(folder, *arguments, after=None):
    """Run a command of its own, and kill it after so many seconds; return its exit code."""
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(
            [str(PROGRAM), *map(str, arguments)],
            cwd=folder,
            env=environment(PARETOLAB_CACHE=str(folder / "cache")),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        if after is not None:
            time.sleep(after)
            process.kill()
        return process.wait()


@pytest.mark.slow
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two workers")
@pytest.mark.parametrize("name", SCENARIOS)
def test_on_two_workers(name, place):
    whole = place / f"whole {name} on ray"
    plain = SCENARIOS[name][0], f"{name}.yaml"
    assert new_process(place, *plain, "--out", whole, "--quiet") == 0
    kill_and_compare(name, 8, 2, place, new_process, contents(whole), 12.0, "--workers", "2")
