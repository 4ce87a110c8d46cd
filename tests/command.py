"""The installed command, run as its users run it, on configurations of a second or two."""

import copy
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import yaml

from framework.cli.main import main
from framework.journal import Journal

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

POINT = {
    "name": "point",
    "problem": {"kind": "function", "name": "zdt1", "d": 4},
    "objectives": [{"metric": "f1", "sense": "min"}, {"metric": "f2", "sense": "min"}],
    "workers": "serial",
    "tracking": None,
}
TOY = POINT | {"algorithm": {"kind": "random", "batch": 10}, "budget": {"generations": 2}}


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
    """Return the environment for a command: no data folder, no colours, and nothing of Ray's.

    Ray sets variables of its own in a process that has started it.
    """
    inherited = {
        k: v for k, v in os.environ.items() if k != "PARETOLAB_DATA" and not k.startswith("RAY_")
    }
    return {**inherited, "NO_COLOR": "1", "OMP_NUM_THREADS": "1", **variables}


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


def run_program(command, *, check=False, **more):
    """Run a program to its end; return what has ``returncode``, ``stdout`` and ``stderr``."""
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=check, **more
    )


def call(*arguments, cwd, env=None, timeout=300, code=None, **more):
    """Run the command to its end; return what has ``code``, ``out`` and ``err``.

    It has to end with ``code``, if that is given. A process that has imported the command forks one
    for each call, which saves each a second of imports. What asks for more, or for variables that
    are read by what is imported, starts anew.
    """
    variables = environment(**(env or {}))
    changed = {key for key, _ in variables.items() ^ _server().environment.items()}
    if more or not changed <= _READ_LATE:
        process = start(*arguments, cwd=cwd, env=env, **more)
        process.out, process.err = process.communicate(timeout=timeout)
        process.code = process.returncode
    else:
        words = [str(PROGRAM), *map(str, arguments)]
        process = _server().call(words, cwd, variables, timeout)
    assert code in (None, process.code), process.err
    return process


def code_and_errors(capsys, *arguments):
    """Run the command in this process; return its exit code and what it said of errors."""
    code = main(list(map(str, arguments)))
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    return code, errors


def refused(capsys, sentence, *arguments):
    """Run the command in this process, which refuses to with a sentence; return what it said."""
    code, errors = code_and_errors(capsys, *arguments)
    assert (code, sentence in errors) == (2, True), errors
    return errors


_READ_LATE = {"PARETOLAB_CACHE", "PARETOLAB_ALLOW", "PARETOLAB_DATA", "COLUMNS"}  # not at import
_READ_LATE |= {"PYTEST_CURRENT_TEST", "XDG_CONFIG_HOME"}
_SERVER = """
import gc, json, os, runpy, sys
from importlib.metadata import distribution
sys.path[0] = os.path.dirname({program!r})  # as the script has it, not the folder it is called in
import framework.models.store, framework.data.table_files, matplotlib.pyplot
import paretolab.__main__, sklearn.linear_model, pandas
for entry in distribution("paretolab").entry_points:
    if entry.group.startswith("paretolab."):
        entry.load()
from matplotlib.figure import Figure
figure = Figure(layout="constrained")
figure.subplots().set_title("the fonts are read")
figure.savefig(os.devnull, format="png")
{prepare}
gc.freeze()  # else the first collection in each child copies every page
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    os._exit(0)
os.environ.clear()
os.environ.update(asked["environment"])
os.chdir(asked["cwd"])
for descriptor, name in enumerate((os.devnull, asked["out"], asked["err"])):
    os.dup2(os.open(name, os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_TRUNC), descriptor)
sys.argv = asked["arguments"]
runpy.run_path({program!r}, run_name="__main__")
"""


class CommandServer:
    """A process that runs the command, in a fork of its own each time.

    ``prepare`` is code that runs before the first.
    """

    def __init__(self, variables=None, prepare=""):
        self.environment = variables or environment()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER.format(program=str(PROGRAM), prepare=prepare)],
            env=self.environment,
            cwd="/",
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def call(self, arguments, cwd, variables, timeout):
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            out.touch()
            err.touch()
            asked = {"arguments": arguments, "cwd": str(cwd), "environment": variables}
            asked |= {"out": str(out), "err": str(err)}
            self._process.stdin.write(f"{json.dumps(asked)}\n")
            self._process.stdin.flush()
            child = int(self._process.stdout.readline())
            timer = threading.Timer(timeout, _kill, [child])
            timer.start()
            code = int(self._process.stdout.readline())
            timer.cancel()
            told = {"out": out.read_text(), "err": err.read_text()}
            return SimpleNamespace(code=code, returncode=code, **told)


def _kill(process):
    with suppress(ProcessLookupError):  # it has ended
        os.kill(process, signal.SIGKILL)


@cache
def _server():
    return CommandServer()


def until(condition, seconds=240.0, pause=0.1):
    """Wait until a condition holds, which it has to in so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(pause)


def free_port():
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def rows(journal):
    """Return the first id and the number of rows of each batch of a journal."""
    with Journal(journal) as found:
        return [(int(batch.ids[0]), len(batch)) for batch in found.evaluations()]


def assert_each_row_once(journal):
    """Check that the ids of a journal are 0, 1, 2, ... without a gap or a repetition."""
    with Journal(journal) as found:
        ids = np.concatenate([batch.ids for batch in found.evaluations()])
    assert np.array_equal(ids, np.arange(len(ids)))
