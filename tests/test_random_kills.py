"""Killed at random moments, from the first millisecond on: always resumable, the same bytes."""

import os
import random
import signal
import time

import pytest

from tests.command import POINT, PROGRAM, CommandServer, environment, small, start, write
from tests.experiment import small as little
from tests.made_up_libraries import checked, made_up
from tests.tracking import sweeps


def of_library(kind, **senses):
    """Return the configuration of a search over ensembles of a library."""
    return POINT | {
        "name": kind,
        "problem": {"kind": kind, "library": {"path": "library"}},
        "objectives": [{"metric": name, "sense": sense} for name, sense in senses.items()],
        "algorithm": {"kind": "nsga2", "population": 30},
        "budget": {"generations": 8},
    }


HULL = POINT | {
    "name": "hull",
    "problem": {"kind": "function", "name": "zejd1"},
    "objectives": [{"metric": name, "sense": "min"} for name in ("f1", "f2", "f3")],
    "algorithm": {"kind": "fch_emoa", "population": 20},
    "budget": {"evaluations": 150},
}
GRID = little.raw(methods={"a": "random", "b": "nsga2"}, repeats=2)
GRID |= {"budget": {"evaluations": 300}}
SCENARIOS = {
    "multistage": ["run", small(budget__generations=8)],
    "ensembling": ["run", of_library("ensemble", roc_auc="max", inference_time="min")],
    "pruning": ["run", of_library("pruning", accuracy="max", members="min")],
    "hull": ["run", HULL],
    "sweep": ["sweep", sweeps.raw(trials=5)],
    "experiment": ["experiment", GRID],
    "repeats": ["run", small(budget__generations=3, repeats=3)],
}


# pictures take longer than all else, and are compared with nothing
UNDRAWN = """
import tracking.sweep.run
from tracking.figures import comparison_report
comparison_report.write_report = lambda *_, **__: []
tracking.sweep.run.write_sweep_figures = lambda *_: None
"""


@pytest.fixture(scope="module")
def forked(tmp_path_factory):
    """Return what runs a command in a fork, which begins at once, and kills it after some time.

    A process that starts anew imports for a second, and dies there of most kills.
    """
    cache = str(tmp_path_factory.mktemp("cache"))
    server = CommandServer(environment(PARETOLAB_CACHE=cache), UNDRAWN)

    def run(folder, *arguments, after=300.0):
        words = [str(PROGRAM), *map(str, arguments)]
        return server.call(words, folder, server.environment, after)

    return run


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    checked(made_up(k=8)).save(folder / "library")
    for name, (_, config) in SCENARIOS.items():
        write(folder / f"{name}.yaml", config)
    return folder


def contents(directory):
    """Return the bytes of every front, and of the tables of sweeps and experiments."""
    found = {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*.csv"))
        if path.name in ("front.csv", "trials.csv") or path.parent.name == "tables"
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
            ended = run(place, *word, *options, "--quiet", after=moment)
            assert_whole(place, out)
            if ended.code != -signal.SIGKILL:
                assert ended.code == 0, ended.err
                break
            done += 1
        word = ["resume", out] if out.exists() else [command, f"{name}.yaml", "--out", out]
        ended = run(place, *word, *options, "--quiet")
        assert ended.code == 0, ended.err
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
def test_in_a_fork(name, kills, seed, place, forked):
    whole = place / f"whole {name} {seed}"
    more = ["--no-plots"] if SCENARIOS[name][0] == "run" else []
    seconds = 2.0
    for out in (place / f"{whole.name} before", whole):  # the first one may compile
        command = SCENARIOS[name][0], f"{name}.yaml", "--out", out, "--quiet", *more
        started = time.perf_counter()
        ended = forked(place, *command)
        assert ended.code == 0, ended.err
        seconds = min(seconds, time.perf_counter() - started)
    kill_and_compare(name, kills, seed, place, forked, contents(whole), seconds, *more)


def new_process(folder, *arguments, after=None):
    """Run a command of its own, and kill it after so many seconds."""
    process = start(*arguments, cwd=folder, env={"PARETOLAB_CACHE": str(folder / "cache")})
    if after is not None:
        time.sleep(after)
        process.kill()
    process.out, process.err = process.communicate()
    process.code = process.returncode
    return process


@pytest.mark.slow
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two workers")
@pytest.mark.parametrize("name", SCENARIOS)
def test_on_two_workers(name, place):
    whole = place / f"whole {name} on ray"
    plain = SCENARIOS[name][0], f"{name}.yaml"
    assert new_process(place, *plain, "--out", whole, "--quiet").code == 0
    kill_and_compare(name, 8, 2, place, new_process, contents(whole), 12.0, "--workers", "2")
