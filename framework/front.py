"""The Pareto front of a run, and the archive that keeps it up to date while the run goes on.

The Pareto front consists of the non-dominated candidates among those that were evaluated without
an error and meet the constraints. Of candidates with equal objectives the first one is kept.
"""

from __future__ import annotations

import csv
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from itertools import islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray, IntArray, are_finite
from framework.batch import Evaluated
from framework.errors import InputError
from framework.files import write_whole
from framework.journal import Journal
from framework.pareto import hypervolume, nondominated
from framework.reading import read_text
from framework.roles import GENE_PREFIX, Metric, Roles

if TYPE_CHECKING:
    import pandas as pd


_SETTING_PREFIX = "setting_"
FIRM, TIED = "firm", "tied_with"  # columns computed from resamples: see expected_columns
_SORTED_TOGETHER = 256  # evaluations added to an archive before they are sorted in
_MOST_BYTES = 10**9  # of a CSV file
_LONG = 200  # characters of an error, above which the part of the design is left out
_JOINED = 256  # batches added to an archive before they are joined into one


class Archive:
    """The Pareto front of all evaluations so far, kept up to date.

    Adding a batch with :meth:`add` takes O(1): batches are sorted in together, when many of them
    are waiting or when the front is read. So n batches cost O(n log^2 n) whatever their size. The
    front is the same as if :meth:`update` had sorted each of them in at once.

    Parameters
    ----------
    roles : Roles
    """

    def __init__(self, roles: Roles) -> None:
        self.roles = roles
        self._rows: Evaluated | None = None
        self._losses: FloatArray = np.zeros((0, len(roles.objectives)))
        self._waiting: list[Evaluated] = []
        self._joined: list[Evaluated] = []  # older waiting batches, joined into few large ones
        self._n_waiting = 0
        self._changed = False

    @property
    def rows(self) -> Evaluated | None:
        """The candidates on the front, by id; None while it is empty."""
        self._settle()
        return self._rows

    @property
    def losses(self) -> FloatArray:
        """The losses of :attr:`rows`, shape (front size, objectives)."""
        self._settle()
        return self._losses

    @property
    def known_size(self) -> int:
        """Size of the front without the batches that are still waiting."""
        return len(self._losses)

    def add(self, batch: Evaluated) -> None:
        """Add a batch, to be sorted in later."""
        self._waiting.append(batch)
        self._n_waiting += len(batch)
        if len(self._waiting) == _JOINED:  # many small objects slow down the garbage collector
            self._joined.append(Evaluated.concat(self._waiting))
            self._waiting = []
        if self._n_waiting >= max(_SORTED_TOGETHER, len(self._losses)):
            self._settle()

    def update(self, batch: Evaluated) -> bool:
        """Add a batch and sort it in at once; return whether the front changed."""
        self._settle()
        return self._sort_in(batch)

    def has_changed(self) -> bool:
        """Return whether the front has changed since the last call."""
        self._settle()
        changed, self._changed = self._changed, False
        return changed

    def __len__(self) -> int:
        return len(self.losses)

    def hypervolume(self) -> float:
        """See :func:`volume`."""
        return volume(self.losses, self.roles)

    def _settle(self) -> None:
        if self._n_waiting:
            batch = Evaluated.concat([*self._joined, *self._waiting])
            self._joined, self._waiting, self._n_waiting = [], [], 0
            self._sort_in(batch)

    def _sort_in(self, batch: Evaluated) -> bool:
        usable = batch.ok & (self.roles.violation(batch.values) == 0.0)
        if not usable.any():
            return False
        if not usable.all():
            batch = batch.take(usable)
        candidates = np.concatenate([self._losses, self.roles.losses(batch.values)])
        old = np.zeros(0, np.int64) if self._rows is None else self._rows.ids
        # batches may come in any order; of equal candidates the one with the lowest id stays
        order = np.argsort(np.concatenate([old, batch.ids]), kind="stable")
        keep = np.zeros(len(order), dtype=bool)
        keep[order[nondominated(candidates[order])]] = True
        if not keep[len(old) :].any():
            return False
        pieces = [] if self._rows is None else [self._rows.take(keep[: len(old)])]
        pieces.append(batch.take(keep[len(old) :]))
        self._rows = Evaluated.concat([piece for piece in pieces if len(piece)])  # by id
        self._losses = candidates[order[keep[order]]]
        self._changed = True
        return True


class Failures:
    """How many evaluations failed, and the most frequent error."""

    def __init__(self, batches: Iterable[Evaluated] = ()) -> None:
        self._total = 0
        self._errors: Counter[str] = Counter()
        self._example: dict[str, str] = {}
        for batch in batches:
            self.add(batch)

    def add(self, batch: Evaluated) -> None:
        self._total += len(batch)
        for error in batch.errors.values():
            kind = error.partition(": ")[2] or error  # the text before names a part of the design
            self._errors[kind] += 1
            self._example.setdefault(kind, error)

    @property
    def all(self) -> bool:
        """Whether every evaluation failed."""
        return self._errors.total() == self._total

    def __str__(self) -> str:
        """Return a clause such as "all 60 evaluations failed, 58 of them by: ..."; "" for none."""
        if not self._errors:
            return ""
        kind, count = self._errors.most_common(1)[0]
        share = "all" if self.all else f"{self._errors.total():,} of"
        total = f"{share} {self._total:,} evaluations failed"
        example = self._example[kind]
        return f"{total}, {count:,} of them by: {example if len(example) <= _LONG else kind}"


def why_empty(batches: Iterable[Evaluated], roles: Roles) -> str:
    """Return a sentence on why no candidate of some batches is on a front.

    If all evaluations failed, it names the most frequent error. Otherwise it names the constraints
    that no candidate meets, with the best value reached or, if each constraint is met by some, the
    candidate that comes nearest to meeting all of them.
    """
    failures, nearest = Failures(), inf
    best: dict[tuple[str, str, float], tuple[float, float, int]] = {}  # by bound: gap, value, id
    near = ""
    for batch in batches:
        failures.add(batch)
        rows = batch.take(batch.ok)
        if not len(rows):
            continue
        for metric, sign, limit in roles.limits_of_constraints():
            gaps = rows.values[metric] - limit if sign == "<=" else limit - rows.values[metric]
            row = int(np.argmin(gaps))
            miss = float(gaps[row]), float(rows.values[metric][row]), int(rows.ids[row])
            best[metric, sign, limit] = min(best.get((metric, sign, limit), miss), miss)
        broken = roles.violation(rows.values)
        row = int(np.argmin(broken))
        if broken[row] < nearest:
            nearest = float(broken[row])
            near = f"candidate {rows.ids[row]} comes nearest, with " + ", ".join(
                f"{metric} {rows.values[metric][row]:.6g} ({sign} {limit:g} is asked for)"
                for metric, sign, limit in roles.limits_of_constraints()
            )
    if failures.all:
        return str(failures) or "no candidate was evaluated"
    never = [
        f"no candidate has {metric} {sign} {limit:g}; the best is {value:.6g} (candidate {id}), by "
        f"{gap:.3g} too {'high' if sign == '<=' else 'low'}"
        for (metric, sign, limit), (gap, value, id) in best.items()
        if gap > 0
    ]
    return "; ".join(never) or f"each constraint is met, but not all by one candidate: {near}"


def volume(losses: FloatArray, roles: Roles) -> float:
    """Return the hypervolume of losses, as a share of the box between best and worst values.

    It is 0 where there are no losses. The box is ``Roles.bounds``. An objective x without finite
    bounds is first mapped monotonically to (-1, 1), by y / (1 + abs(y)) with
    y = sign(x) log(1 + abs(x)).
    """
    if len(losses) == 0:
        return 0.0
    bounds = roles.bounds()
    open_ended = ~np.isfinite(bounds).all(axis=1)
    if open_ended.any():
        order = np.sign(losses) * np.log1p(np.abs(losses))
        losses = np.where(open_ended, order / (1.0 + np.abs(order)), losses)
        bounds[open_ended] = -1.0, 1.0
    span = np.where(bounds[:, 1] > bounds[:, 0], bounds[:, 1] - bounds[:, 0], 1.0)
    return hypervolume((losses - bounds[:, 0]) / span, np.ones(losses.shape[1]))


@dataclass(frozen=True, repr=False)
class Front:
    """The Pareto front of a run: its best trade-offs, in the order of their ids.

    Attributes
    ----------
    rows : Evaluated
        The solutions: ids, genomes, metrics.
    roles : Roles
    gene_names : tuple of str
    test : mapping of str to numpy.ndarray, or None
        The same metrics on the test records.
    expected : mapping of str to numpy.ndarray, or None
        What to expect on new records: the columns of :func:`expected_columns`.
    settings : mapping of str to numpy.ndarray
        Further columns of tables, such as thresholds of the designs; see ``Problem.settings``.
    """

    rows: Evaluated
    roles: Roles
    gene_names: tuple[str, ...]
    test: Mapping[str, Array] | None = None
    expected: Mapping[str, Array] | None = None
    settings: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def ids(self) -> IntArray:
        """Ids of the candidates, ascending, shape (n,)."""
        return self.rows.ids

    @property
    def X(self) -> Array:
        """Genomes, shape (n, d)."""
        return self.rows.X

    @property
    def losses(self) -> FloatArray:
        """Objectives to minimise, shape (n, m)."""
        return self.roles.losses(self.rows.values)

    def expected_losses(self) -> FloatArray | None:
        """Return the expected losses, shape (n, m); None if any of them is not known."""
        columns = expected_columns(self.roles.metrics)
        names = [columns[name][0] for name in self.roles.names if name in columns]
        if self.expected is None or len(names) < len(self.roles.names):
            return None
        if any(name not in self.expected or np.isnan(self.expected[name]).any() for name in names):
            return None
        values = [self.expected[name] for name in names]
        return self.roles.losses(dict(zip(self.roles.names, values, strict=True)))

    def hypervolume(self) -> float:
        """See :func:`volume`."""
        archive = Archive(self.roles)
        archive.update(self.rows)
        return archive.hypervolume()

    @classmethod
    def of(cls, batches: Iterable[Evaluated], roles: Roles, gene_names: tuple[str, ...]) -> Front:
        """Return the front of some batches, ids ascending."""
        archive = Archive(roles)
        last: Evaluated | None = None
        for last in batches:
            archive.add(last)
        if archive.rows is not None:
            return cls(archive.rows, roles, gene_names)
        if last is None:
            values = dict.fromkeys(roles.metrics, np.zeros(0))
            last = Evaluated(np.zeros(0, dtype=np.int64), np.zeros((0, len(gene_names))), values)
        return cls(last.take(np.zeros(len(last), dtype=bool)), roles, gene_names)

    @classmethod
    def from_journal(
        cls, journal: Journal, roles: Roles, gene_names: tuple[str, ...], upto: int | None = None
    ) -> Front:
        """Return the front of the first ``upto`` batches of a journal (all of them if None)."""
        return cls.of(islice(journal.evaluations(), upto), roles, gene_names)

    @classmethod
    def of_rows(
        cls, journal: Journal, ids: IntArray, roles: Roles, gene_names: tuple[str, ...]
    ) -> Front:
        """Return candidates of a journal by their ids, dominated or not, ids ascending."""
        pieces = [batch.take(np.isin(batch.ids, ids)) for batch in journal.evaluations()]
        return cls(Evaluated.concat(pieces), roles, gene_names)

    def __repr__(self) -> str:
        spans = [
            f"{name} {values.min():.4g} to {values.max():.4g}"
            for name, values in self.rows.values.items()
            if name in self.roles.names and len(values)
        ]
        return f"Front({len(self):,} solutions{': ' if spans else ''}{', '.join(spans)})"

    def frame(self) -> pd.DataFrame:
        """Return a table with one row per solution: :meth:`columns`."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def columns(self) -> dict[str, Array]:
        """Return all that is known of each solution, as columns by name.

        These are ``id``, the metrics, the metrics on the test records (with the prefix ``test_``),
        :func:`expected_columns`, the settings (``setting_``) and the genes (``gene_``).
        """
        columns: dict[str, Array] = {"id": self.ids, **self.rows.values}
        if self.test is not None:
            columns |= {f"test_{name}": column for name, column in self.test.items()}
        columns |= self.expected or {}
        columns |= {f"{_SETTING_PREFIX}{name}": column for name, column in self.settings.items()}
        genes = {f"{GENE_PREFIX}{name}": self.X[:, j] for j, name in enumerate(self.gene_names)}
        return columns | genes

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write :meth:`columns` as a CSV file; floats are read back exactly."""
        write_whole(Path(path), csv_of(self.columns()))

    def as_loaded(self) -> Front:
        """Return the front as :meth:`save` and :meth:`load` would: with genes of 64 bits."""
        wide = np.int64 if np.issubdtype(self.X.dtype, np.integer) else np.float64
        values, test, settings = (
            {name: column.astype(np.float64) for name, column in columns.items()}
            for columns in (self.rows.values, self.test or {}, self.settings)
        )
        rows = Evaluated(self.ids, self.X.astype(wide), values)
        return Front(rows, self.roles, self.gene_names, test or None, self.expected, settings)

    def promises(self, position: int) -> dict[str, Promise]:
        """Return the promises of a solution by metric; empty if nothing is expected of it."""
        by_metric = {}
        for metric, columns in expected_columns(self.roles.metrics).items():
            if columns[0] in (expected := self.expected or {}):
                figures = (float(expected[name][position]) for name in columns)
                by_metric[metric] = Promise(float(self.rows.values[metric][position]), *figures)
        return by_metric

    def take(self, positions: IntArray) -> Front:
        """Return the solutions at some positions, which must ascend."""

        def taken(columns: Mapping[str, Array] | None) -> Mapping[str, Array] | None:
            return columns and {name: column[positions] for name, column in columns.items()}

        rows = self.rows.take(positions)
        test, expected, settings = map(taken, (self.test, self.expected, self.settings))
        return replace(self, rows=rows, test=test, expected=expected, settings=settings or {})

    @classmethod
    def load(cls, path: str | os.PathLike[str], roles: Roles) -> Front:
        """Read what :meth:`save` wrote.

        Raises
        ------
        InputError
            The file cannot be read, is damaged, or lacks a metric of ``roles``.
        """
        try:
            columns = columns_of(Path(path))
        except (OSError, ValueError, csv.Error, OverflowError) as error:
            raise InputError(f"{path}: expected a front, found none to read ({error})") from error
        lacking = [name for name in ("id", *roles.metrics) if name not in columns]
        if lacking:
            raise InputError(f"{path}: expected a front with a column {lacking[0]!r}, found none")
        ids = columns["id"]
        if ids.dtype != np.int64:
            raise InputError(f"{path}: expected whole numbers in column 'id', found others")
        genes = [name for name in columns if name.startswith(GENE_PREFIX)]
        X = np.column_stack([columns[name] for name in genes]) if genes else np.zeros((len(ids), 0))
        values = {name: columns[name].astype(np.float64) for name in roles.metrics}
        rows = Evaluated(ids, X, values)
        odd = [name for name, column in rows.values.items() if not are_finite(column)]
        if odd:
            raise InputError(f"{path}: expected finite values, found others in column {odd[0]!r}")
        test, settings = (
            {
                name.removeprefix(prefix): column.astype(np.float64)
                for name, column in columns.items()
                if name.startswith(prefix) and name not in roles.metrics
            }
            for prefix in ("test_", _SETTING_PREFIX)
        )
        lacking = [name for name in roles.metrics if test and name not in test]
        if lacking:
            raise InputError(
                f"{path}: expected a column test_{lacking[0]} beside the others of the test "
                "records, found none"
            )
        names = tuple(name.removeprefix(GENE_PREFIX) for name in genes)
        return cls(rows, roles, names, test or None, _expected_of(columns, roles), settings)


class Promise(NamedTuple):
    """One metric of a solution: the claimed and the expected figure, and a 95% range.

    The range is for the mean over all records to come, not for the figure on a few of them.
    """

    claimed: float
    expected: float
    low: float
    high: float

    def of_test(self, searched: int, tested: int, metric: Metric) -> tuple[float, float]:
        """Return the 95% range of the figure on ``tested`` new records.

        The range of this promise comes from ``searched`` records and has twice the variance of the
        figure on these; ``tested`` records add ``searched / tested`` times that variance.
        """
        wider = math.sqrt(1 + searched / (2 * tested))
        ends = (self.expected + wider * (end - self.expected) for end in self[2:])
        least, most = metric.ends
        low, high = (min(max(end, least), most) for end in ends)
        return low, high


def span(low: str, high: str) -> str:
    """Return a range from its written ends; just one of them where they are the same."""
    return low if low == high else f"{low} to {high}"


def expected_columns(metrics: Iterable[str]) -> dict[str, tuple[str, str, str]]:
    """Return, by metric, the names of the columns on what to expect of it on new records.

    They are ``expected_METRIC`` and the ends of a 95% range, ``METRIC_low`` and ``METRIC_high``. A
    metric has no such columns if one of them is the name of another metric. A front also has the
    columns ``firm``, the share of resamples in which a solution is non-dominated, and
    ``tied_with``, the id of the firmest solution in its group of solutions not told apart.
    """
    by_metric = {name: (f"expected_{name}", f"{name}_low", f"{name}_high") for name in metrics}
    return {
        name: columns for name, columns in by_metric.items() if not by_metric.keys() & set(columns)
    }


def _expected_of(columns: Mapping[str, Array], roles: Roles) -> dict[str, Array] | None:
    """Return the columns on what to expect; None if there are none."""
    wanted = expected_columns(roles.metrics)
    whole = [names for names in wanted.values() if all(name in columns for name in names)]
    expected = {name: columns[name].astype(np.float64) for names in whole for name in names}
    for name, kind in ((FIRM, np.float64), (TIED, np.int64)):
        if expected and name in columns and name not in roles.metrics:
            expected[name] = columns[name].astype(kind)
    return expected or None


def csv_of(columns: Mapping[str, Array]) -> str:
    """Return the text of a CSV file with columns of equal length; NaN is an empty field."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*map(_fields, columns.values()), strict=True))
    return text.getvalue()


def _fields(column: Array) -> list[object]:
    fields: list[object] = column.tolist()
    return [None if value != value else value for value in fields]


def columns_of(path: Path) -> dict[str, Array]:
    """Read a CSV file of numbers: a column is int64 where it can be, else float64.

    Raises
    ------
    OSError, ValueError, OverflowError, csv.Error
        The file cannot be read, or is no table of numbers.
    """
    text = read_text(path, _MOST_BYTES)
    if not text:
        raise ValueError("the file is empty")
    header, *rows = csv.reader(StringIO(text, newline=""))
    if not all(len(row) == len(header) for row in rows):
        raise ValueError("rows of other lengths than the first")
    columns = zip(*rows, strict=True) if rows else [()] * len(header)
    return {name: _numbers(fields) for name, fields in zip(header, columns, strict=True)}


def _numbers(fields: Sequence[str]) -> Array:
    try:
        return np.array(list(map(int, fields)), dtype=np.int64)
    except ValueError:
        return np.array([float(field or "nan") for field in fields])
