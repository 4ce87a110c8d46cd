"""The directory of a run: the files in it, and how to read them without the problem's data."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from framework.arrays import Array, FloatArray
from framework.batch import Evaluated
from framework.errors import InputError, JournalError, command, damaged, listed
from framework.experiment.config import RunConfig, check, read_yaml
from framework.experiment.options import AS_WRITTEN
from framework.files import LOCK, locked, room_in, write_whole
from framework.front import Failures, Front, csv_of, why_empty
from framework.journal import Journal
from framework.problem import Problem
from framework.roles import Constraint, Metric, Objective, Roles
from framework.security import (
    CONFIG_BYTES,
    TABLE_BYTES,
    check_no_links,
    digest_of,
    read_bytes,
    read_object,
    read_text,
)

if TYPE_CHECKING:
    import pandas as pd

_adapter = cache(TypeAdapter)  # one takes milliseconds, and an experiment reads thousands
_IN_SUMMARY: dict[str, type] = {
    **dict.fromkeys(("generations", "evaluations", "rows_failed", "front_size"), int),
    **dict.fromkeys(("expected", "files", "findings", "indicators", "rungs", "versions"), dict),
}


class RunDir:
    """The paths of a run, and methods that read its files.

    ===================  ======================================================================
    ``config.yaml``      the configuration with all defaults
    ``journal.bin``      every row that was evaluated
    ``notes.bin``        what long work has proven so far
    ``course.jsonl``     numbers that long work reported, such as bound and gap
    ``front.csv``        the front, with test metrics where the problem has test records
    ``returned.csv``     what the method returns by its own definition, if that is another set
    ``resamples.npz``    metrics of the front's solutions in resamples of the records, where known
    ``summary.json``     status, evaluations, indicators, versions
    ``about.json``       metrics, roles, names of genes and the data, for readers
    ``plots/``           figures
    ``report.html``      the run, or what an experiment compares, on one page
    ``model/``           the chosen solution as a model, ready to use
    ``choice.json``      the solution that the user chose, if there is a choice
    ``tracking.json``    what was logged to MLflow so far
    ``allowed.json``     what it may do beyond its folder, sealed by the user
    ``repeats/NNN/``     a directory of this kind for each repeat with another seed
    ``trials/NNN/``      a directory of this kind for each trial of a sweep
    ``sweep.yaml``       what a sweep varies
    ``cells/``           CASE/METHOD/NNN, a directory of this kind for each run of an experiment
    ``references/``      CASE, such a directory for the search that a case is measured against
    ``experiment.yaml``  what an experiment compares
    ``anytime.npz``      the front of such a run after so many evaluations
    ``.lock``            held by the process that writes into the directory
    ===================  ======================================================================

    An algorithm may add tables of its own, such as ``upper_bound.csv`` (``Outcome.tables``).

    Parameters
    ----------
    path : path-like
    owned : bool
        Whether this process holds the lock of the directory already; see :meth:`owned`.
    """

    def __init__(self, path: str | os.PathLike[str], *, owned: bool = False) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.yaml"
        self.journal_file = self.path / "journal.bin"
        self.front_file = self.path / "front.csv"
        self.returned_file = self.path / "returned.csv"
        self.resamples_file = self.path / "resamples.npz"
        self.notes_file = self.path / "notes.bin"
        self.progress_log_file = self.path / "course.jsonl"
        self.summary_file = self.path / "summary.json"
        self.about_file = self.path / "about.json"
        self.sweep_file = self.path / "sweep.yaml"
        self.experiment_file = self.path / "experiment.yaml"
        self.anytime_file = self.path / "anytime.npz"
        self.tracking_file = self.path / "tracking.json"
        self.choice_file = self.path / "choice.json"
        self.plots = self.path / "plots"
        self.model = self.path / "model"
        self._front: tuple[tuple[int, ...], Front] | None = None  # what a file holds, and which
        self._owned = owned

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> RunDir:
        """Return the directory of a run that was started.

        Raises
        ------
        InputError
            It has no ``config.yaml``, or a link, which may lead to a file of the user's.
        """
        run_dir = cls(path)
        if not run_dir.config_file.is_file():
            raise InputError(f"{path}: expected the directory of a run, found no config.yaml in it")
        check_no_links(run_dir.path, "a run", written=True)
        return run_dir

    @classmethod
    def finished(cls, path: str | os.PathLike[str], remedy: str) -> RunDir:
        """Return the directory of a run that has a front; ``remedy`` says how it gets one.

        Raises
        ------
        InputError
            It is not the directory of a run, or has no front.
        """
        run_dir = cls.existing(path)
        if run_dir.front_file.is_file():
            return run_dir
        ended = [run.path for run in run_dir.children() if run.front_file.is_file()]
        if ended and run_dir.kind != "a run":  # different searches have no common front
            raise InputError(
                f"{path}: expected a run, found {run_dir.kind}, whose runs have a front each; "
                f"give one of them, such as {ended[0]}"
            )
        raise InputError(f"{path}: expected a finished run, found no front.csv; {remedy}")

    @property
    def kind(self) -> str:
        """What was run in it, with its article."""
        if self.experiment_file.is_file():
            return "an experiment"
        return "a sweep" if self.sweep_file.is_file() else "a run"

    def children(self) -> list[RunDir]:
        """Return the directories of its repeats, trials or runs; none for a single run."""
        places = ("repeats/[0-9]*", "trials/[0-9]*", "references/*", "cells/*/*/[0-9]*")
        paths = sorted(path for place in places for path in self.path.glob(place))
        return [RunDir(path) for path in paths if path.is_dir()]

    @property
    def whole(self) -> RunDir:
        """The run, sweep or experiment that it is a part of; itself where it is none."""
        paths = {self.path, self.path.absolute()}
        for home in map(RunDir, (*self.path.parents, *self.path.absolute().parents)):
            if home.config_file.is_file() and paths & {child.path for child in home.children()}:
                return home.whole
        return self

    def runs(self) -> list[RunDir]:
        """Return the directories of its repeats or trials, or its own if it has none."""
        return self.children() or [self]

    @contextmanager
    def owned(self, *, wait: bool = False) -> Iterator[None]:
        """Hold the lock of the directory, as every run in it must; do nothing if it is held here.

        The system releases the lock when the process ends, in whatever way.

        Parameters
        ----------
        wait : bool
            Whether to wait for a process that holds it.

        Raises
        ------
        InputError
            Another process holds it, and it is not waited for.
        """
        if self._owned:
            yield
            return

        def refuse() -> None:
            if wait:
                return
            raise InputError(
                f"{self.path}: expected {self.kind} that nobody runs, found that another process "
                "does; wait for it or stop it"
            )

        with locked(self.path / LOCK, refuse):
            self._owned = True
            try:
                yield
            finally:
                self._owned = False

    @property
    def has_begun(self) -> bool:
        """Whether a search has begun in it."""
        journals = self.path.rglob(self.journal_file.name)
        return self.summary_file.exists() or any(journal.is_file() for journal in journals)

    def make(self, config: RunConfig) -> None:
        """Make the directory, with its configuration from the start; if it exists, write that."""
        if self.path.is_dir():
            self.write_config(config)
            return
        with room_in(self.path.parent) as room:
            write_whole(room / self.config_file.name, config.dump())
            room.rename(self.path)

    def config(self, *, checked: bool = False) -> RunConfig:
        """Return the configuration of the run.

        Unless ``checked``, the options of problem and search are as written, without the class of
        their kind: they can be read, but neither can be made from them.
        """
        raw = read_yaml(self.config_file)
        return check(RunConfig, raw, str(self.config_file), {AS_WRITTEN: not checked})

    def origin(self) -> dict[str, Any]:
        """Return what is noted of the run with a model of its front."""
        config = self.config()
        return {"run": config.name, "seed": config.seed}

    def write_config(self, config: RunConfig) -> None:
        """Write ``config.yaml``, which makes the folder the directory of a run."""
        write_whole(self.config_file, config.dump())

    def write_about(self, problem: Problem, roles: Roles, **more: Any) -> None:
        """Write ``about.json``: what readers of the directory need to know of the problem."""
        about = {
            "fingerprint": problem.fingerprint,
            "metrics": [metric._asdict() for metric in problem.metrics],
            "objectives": [objective._asdict() for objective in roles.objectives],
            "constraints": [constraint._asdict() for constraint in roles.constraints],
            "gene_names": list(problem.gene_names),
            "anchors": problem.anchors(roles.names),
            **more,
        }
        write_whole(self.about_file, json.dumps(about, indent=1))

    @contextmanager
    def remade(self, file: Path, what: str) -> Iterator[None]:
        """Turn damage of ``about.json`` or ``summary.json`` into how they are written again."""
        try:
            with damaged(file, what):
                yield
        except InputError as error:
            remedy = f"run {command('resume', self.whole.path)}"
            if file == self.about_file and self.sweep_file.is_file():
                remedy = 'put its copy back, or {"uid": "..."} with the end of its study\'s name'
            elif file.exists():
                remedy = f"delete it and {remedy}"
            raise InputError(f"{error}; {remedy}") from error

    def about(self) -> dict[str, Any]:
        """Return what :meth:`write_about` wrote. Raises InputError where it is damaged."""
        with self.remade(self.about_file, "what is known of the problem"):
            about = read_object(self.about_file, "what is known of the problem")
            if not isinstance(about.get("data") or {}, dict):
                raise TypeError(f"data that are {type(about['data']).__name__}")
        return about

    def check_problem(self, problem: Problem) -> None:
        """Refuse a problem of other data than the run's, or of another version of paretolab."""
        with self.remade(self.about_file, "what is known of the problem"):
            fingerprint = self.about()["fingerprint"]
        if problem.fingerprint != fingerprint:
            raise InputError(
                f"{self.path}: expected the data and the version of paretolab that the run was "
                "made with, found others; the front may not belong to them, run it again"
            )

    def data(self) -> dict[str, Any]:
        """Return what :meth:`about` knows of the data; empty where nothing is written as yet."""
        return (self.about().get("data") or {}) if self.about_file.is_file() else {}

    def config_text(self) -> str:
        """Return the content of config.yaml."""
        return read_text(self.config_file, CONFIG_BYTES)

    def roles(self) -> Roles:
        """Return the roles of the run's metrics. Raises InputError where they are damaged."""
        about = self.about()
        with self.remade(self.about_file, "metrics and their roles"):
            return Roles(
                [_checked(Metric, m) for m in about["metrics"]],
                [_checked(Objective, o) for o in about["objectives"]],
                [_checked(Constraint, c) for c in about["constraints"]],
            )

    def anchors(self) -> FloatArray | None:
        """Return the problem's points of reference (n, objectives); None where it names none.

        Raises InputError where they are damaged.
        """
        pair = self.about().get("anchors")
        if pair is None:
            return None
        objectives = len(self.roles().names)
        with self.remade(self.about_file, "points of reference"):
            points = np.array(pair, dtype=np.float64)
            if points.ndim != 2 or points.shape[1] != objectives:
                raise ValueError(f"points of shape {points.shape}")
        return points

    def why_empty(self) -> str:
        """Return a sentence on why the front of the run is empty."""
        return why_empty(self._evaluations(), self.roles())

    def failures(self) -> str:
        """Return in words how many evaluations failed, and the most frequent error."""
        return str(Failures(self._evaluations()))

    def _evaluations(self) -> Iterator[Evaluated]:
        for run in self.runs():
            if run.journal_file.is_file():
                with run.journal() as journal:
                    yield from journal.evaluations()

    def journal(self) -> Journal:
        """Open the journal for reading.

        Raises
        ------
        JournalError
            It cannot be read, or lacks rows of a run that has ended.
        """
        journal = Journal(self.journal_file)
        if not set(self.roles().metrics) <= set(journal.metric_names):
            raise JournalError(
                f"{self.journal_file}: expected the metrics of {self.about_file.name}, found "
                f"{listed(journal.metric_names)}; it belongs to another run"
            )
        evaluations = self.summary().get("evaluations", 0)
        if journal.n_rows < evaluations:
            raise JournalError(
                f"{self.journal_file}: expected the {evaluations:,} rows of {self.summary_file}, "
                f"found {journal.n_rows:,}; `paretolab resume` evaluates what is lost"
            )
        return journal

    def front(self) -> Front:
        """Return the final front, with test metrics if it has some; it is read when it changed.

        Raises
        ------
        InputError
            It is damaged, or not as the run wrote it.
        """
        roles = self.roles()
        with damaged(self.front_file, "a front"):
            file = _identity(self.front_file)
            if self._front is None or self._front[0] != file:
                self.check_written(self.front_file)
                front = Front.load(self.front_file, roles)
                if (front.ids[1:] <= front.ids[:-1]).any():
                    raise ValueError("ids that do not ascend")
                self._front = file, front
            return self._front[1]

    def write_front(self, front: Front) -> None:
        """Write ``front.csv``."""
        front.save(self.front_file)
        self._front = _identity(self.front_file), front.as_loaded()

    def returned(self) -> Front | None:
        """Return what the method returns by its own definition; None where that is the front.

        Raises
        ------
        InputError
            It is damaged, or not as the run wrote it.
        """
        if not self.returned_file.is_file() and self.returned_file.name not in self._digests:
            return None
        self.check_written(self.returned_file)
        with damaged(self.returned_file, "what a method returned"):
            return Front.load(self.returned_file, self.roles())

    def returned_or_front(self) -> Front:
        """Return what the method returns by its own definition."""
        returned = self.returned()
        return self.front() if returned is None else returned

    @property
    def _digests(self) -> dict[str, str]:
        """The SHA-256 of each result, by the name of its file, as the summary has them."""
        digests: dict[str, str] = self.summary().get("files", {})
        return digests

    @property
    def changed(self) -> list[str]:
        """The names of the results that are not as the run wrote them, or are not there."""
        there = {file.name: file for file in self.path.iterdir() if file.is_file()}
        return [  # a summary from others may name files elsewhere
            name
            for name, digest in self._digests.items()
            if name not in there or digest_of(there[name], TABLE_BYTES) != digest
        ]

    def check_written(self, file: Path) -> None:
        """Refuse a result that is not as the run wrote it; its digest is in the summary."""
        digest = self._digests.get(file.name)
        if digest is not None and file.is_file() and digest_of(file, TABLE_BYTES) != digest:
            raise InputError(
                f"{file}: expected it as the run wrote it, found that it was changed since; put it "
                "back, or resume the run (of several, the whole directory) to have it written again"
            )

    def summary(self) -> dict[str, Any]:
        """Return the content of ``summary.json``; an empty mapping if the run has not ended."""
        if not self.summary_file.is_file():
            return {}
        with self.remade(self.summary_file, "a summary"):
            summary = read_object(self.summary_file, "a summary")
            for name, kind in _IN_SUMMARY.items():
                if not isinstance(summary.get(name, kind()), kind):
                    what = "numbers" if kind is int else "keys and values"
                    raise TypeError(f"no {what} as {name!r}")
            expected, numbers = summary.get("expected", {}), {"wall_s": summary.get("wall_s")}
            numbers |= {name: expected.get(name) for name in ("searched", "tested")}  # records
            for name, number in numbers.items():
                if not isinstance(number or 0, int | float):
                    raise TypeError(f"no number as {name!r}")
        return summary

    def choice(self) -> int | None:
        """Return the id of the solution that the user chose; None if the user chose none."""
        if not self.choice_file.is_file():
            return None
        solution = read_object(self.choice_file, "a choice").get("solution")
        if not isinstance(solution, int):
            raise InputError(
                f"{self.choice_file}: expected the id of a solution, found {solution!r}; delete "
                "the file and choose again"
            )
        return solution

    def write_choice(self, solution: int) -> None:
        """Write ``choice.json``: the id of the solution that the user chose."""
        write_whole(self.choice_file, json.dumps({"solution": solution}))

    def write_listing(self, name: str, columns: Mapping[str, Array]) -> Path:
        """Write a table as ``NAME.csv``; return its path."""
        path = self.path / f"{name}.csv"
        write_whole(path, csv_of(columns))
        return path

    def listing(self, name: str) -> pd.DataFrame:
        """Return the table ``NAME.csv``. Raises InputError where it is damaged or missing."""
        import pandas as pd

        path = self.path / f"{name}.csv"
        if not path.is_file():
            raise InputError(f"{path}: expected a table, found none; go on with the run first")
        self.check_written(path)
        with damaged(path, "a table"):
            return pd.read_csv(BytesIO(read_bytes(path, TABLE_BYTES)))

    def write_summary(self, summary: dict[str, Any], *results: Path) -> None:
        """Write ``summary.json``, with the digests of the results that were written before it."""
        if results:
            summary["files"] = {file.name: digest_of(file, TABLE_BYTES) for file in results}
        write_whole(self.summary_file, json.dumps(summary, indent=1))


def _identity(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is replaced; empty if there is no file."""
    with suppress(OSError):
        status = path.stat()
        return status.st_ino, status.st_mtime_ns, status.st_size
    return ()


def _checked(role: Any, plain: Mapping[str, Any]) -> Any:
    """Return a role, each field checked to be of the type that it declares."""
    return _adapter(role).validate_python(dict(plain), strict=True)


def slug(name: str) -> str:
    """Return a name as a folder's: letters, digits, '.', '_' and '-'."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")
