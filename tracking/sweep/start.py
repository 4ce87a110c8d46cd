"""What a sweep tries first: settings that its file names, or the best ones of an earlier sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from framework.errors import InputError
from framework.experiment.run_dir import RunDir
from framework.plain_files import damaged
from framework.registry import nearest
from tracking.sweep.space import Dimension, Value

Start = dict[str, Value] | str


def settings(
    start: Sequence[Start], space: Mapping[str, Dimension], base: Path, where: str
) -> list[dict[str, Any]]:
    """Return the settings to try first, each a part of the search space or all of it.

    Parameters
    ----------
    start : sequence of mappings and paths
        A path is the directory of an earlier sweep, whose best trials are meant.
    space : mapping of str to Dimension
    base : pathlib.Path
        What paths are relative to.
    where : str
        The key, for messages.

    Raises
    ------
    InputError
        A value that could not be drawn, or no earlier sweep.
    """
    found: list[dict[str, Any]] = []
    for i, entry in enumerate(start):
        place = f"{where}.{i}"
        if isinstance(entry, str):
            known = _best(base / entry, place)
            place = f"{place} ({entry})"
        else:
            known = [entry]
        found += [_checked(params, space, place) for params in known]
    return found


def _best(path: Path, where: str) -> list[dict[str, Any]]:
    """Return the values of the best trials of an earlier sweep."""
    sweep = RunDir(path)
    best = sweep.summary().get("best") if sweep.sweep_file.is_file() else None
    if not best:
        raise InputError(
            f"{where}: expected the directory of a sweep that has ended, found none in {path}"
        )
    with damaged(sweep.summary_file, "the best trials of a sweep"):
        return [dict(trial["params"]) for trial in best]


def _checked(
    params: Mapping[str, Any], space: Mapping[str, Dimension], where: str
) -> dict[str, Any]:
    """Return settings whose values can be drawn together, in the order of the search space."""
    for key in params:
        if key not in space:
            raise InputError(
                f"{where}: expected keys of the search space, found {key!r}{nearest(key, space)}"
            )
    given = {key: params[key] for key in space if key in params}
    for key, value in given.items():
        if not space[key].contains(value):
            raise InputError(
                f"{where}.{key}: expected a value of the search space, found {value!r}"
            )
        if not space[key].holds(given):
            raise InputError(
                f"{where}.{key}: expected it beside {space[key].shown_condition()}, found it "
                "without"
            )
    return given
