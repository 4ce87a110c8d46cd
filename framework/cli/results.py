"""``--json``: the result of a command as one JSON object on standard output.

A command that prints a result declares the option (:func:`json_argument`) and tells what it found
(:func:`tell`), beside what it prints for people. With ``--json``, ``paretolab.main`` writes these
fields to standard output as the last thing; tables are not printed, and progress, warnings and
messages go to standard error. ``docs/json.md`` lists the fields.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from framework.errors import ParetolabError
from framework.experiment.run_dir import RunDir
from framework.extras import missing
from framework.front import Front, Promise


class _Told:
    """The fields of the command that is running; ``stdout`` once ``--json`` is asked for."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.stdout: TextIO | None = None


_told = _Told()


def json_argument(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the result as one JSON object, and nothing else, to standard output",
    )


def wants_json() -> bool:
    """Return whether the command that is running was called with ``--json``."""
    return _told.stdout is not None


def tell(make: Callable[[], Mapping[str, Any]]) -> None:
    """Add fields to the result; they are made only where ``--json`` asks for them.

    Numbers, texts, paths, arrays, data frames and named tuples are taken as they are; NaN and
    infinities become null.
    """
    if wants_json():
        _told.fields |= make()


@contextmanager
def as_json(command: str, *, wanted: bool) -> Iterator[None]:
    """Within it, :func:`tell` collects, and what is printed goes to standard error."""
    if not wanted:
        yield
        return
    global _told
    before, _told = _told, _Told()
    _told.stdout = sys.stdout
    _told.fields |= {"command": command, "exit_code": 0}
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (ParetolabError, ModuleNotFoundError, OSError, KeyboardInterrupt) as error:
        said = missing(error) or error if isinstance(error, ModuleNotFoundError) else error
        code = 130 if isinstance(error, KeyboardInterrupt) else getattr(said, "exit_code", 2)
        _write(_told.stdout, {"command": command, "exit_code": code, "error": str(said)})
        raise
    else:
        _write(_told.stdout, _told.fields)
    finally:
        _told = before


def _write(stdout: TextIO, fields: Mapping[str, Any]) -> None:
    """Write an object: ASCII alone, so that nothing in it is a command to the terminal."""
    stdout.write(json.dumps(plain(fields), allow_nan=False, indent=1) + "\n")
    stdout.flush()


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if hasattr(value, "to_dict"):  # a data frame
        return plain(value.to_dict("records"))
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Iterable):
        return [plain(inner) for inner in value]
    return str(value)


def records(front: Front) -> list[dict[str, Any]]:
    """Return a front as ``front.csv`` has it: one object per solution."""
    columns = {name: column.tolist() for name, column in front.columns().items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def solution(
    front: Front, position: int, promises: Mapping[str, Promise] | None = None
) -> dict[str, Any]:
    """Return the fields of one solution: its id and, by metric, what it claims and keeps."""
    known = front.promises(position) if promises is None else promises
    metrics = {}
    for name, column in front.rows.values.items():
        one = known.get(name)
        metrics[name] = {
            "claimed": column[position],
            "expected": one and one.expected,
            "low": one and one.low,
            "high": one and one.high,
            "test": None if front.test is None else front.test[name][position],
        }
    return {"solution": front.ids[position], "metrics": metrics}


def model_of(run_dir: RunDir) -> Path | None:
    """Return the directory of a run's model, if it has one."""
    return run_dir.model if (run_dir.model / "model.json").is_file() else None
