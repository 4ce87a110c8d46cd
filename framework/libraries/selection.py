"""What problems that choose models of a library share: costs, metrics, their description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from framework.answers import Measure, Part, Records
from framework.arrays import FloatArray, IntArray, WordArray, row_codes
from framework.data.subgroups import Subgroups
from framework.errors import InputError
from framework.libraries.config import BuildConfig, LibrarySection
from framework.libraries.library import Library
from framework.libraries.members import load_encoder
from framework.measures import rates
from framework.registry import nearest
from framework.roles import Metric

if TYPE_CHECKING:
    import pandas as pd


def reported_costs(library: Library, costs: Sequence[str] | None) -> tuple[str, ...]:
    """Return the costs that a problem reports: those named, or all.

    Raises
    ------
    InputError
        The library has no such cost.
    """
    if costs is None:
        return tuple(library.costs)
    for name in costs:
        if name not in library.costs:
            raise InputError(
                f"problem.costs: expected costs of the library "
                f"({', '.join(library.costs) or 'it has none'}), found {name!r}"
                f"{nearest(name, library.costs)}"
            )
    return tuple(costs)


def cost_table(library: Library, costs: Sequence[str]) -> FloatArray:
    """Return what each model costs, shape (K, costs)."""
    table = np.zeros((len(library), len(costs)))
    for c, name in enumerate(costs):
        table[:, c] = library.costs[name].values
    return table


def cost_metrics(library: Library, costs: Sequence[str], highs: FloatArray) -> list[Metric]:
    """Return the metric of each cost; ``highs``, shape (costs,), is what all models cost."""
    return [
        Metric(
            name,
            "min",
            "ratio",
            high=float(high) or 1.0,
            unit=library.costs[name].unit,
            text="sum over the members",
        )
        for name, high in zip(costs, highs, strict=True)
    ]


def answered_records(
    library: Library, positive: int, subgroups: Sequence[Subgroups]
) -> dict[Part, Records | None]:
    """Return the records of a library that candidates answer, by part.

    Those of a library for regression have no classes.

    Parameters
    ----------
    library : Library
    positive : int
        Code of the positive class; -1 for none.
    subgroups : sequence of Subgroups
        Of the validation records and of the test records; empty for none.
    """
    codes: list[IntArray | None] = [of.codes for of in subgroups] or [None, None]
    classes, names = tuple(library.classes or ()), subgroups[0].names if subgroups else ()
    searched = Records(
        library.y_validation,
        classes,
        positive,
        subgroups=codes[0],
        subgroup_names=names,
        units=library.units,
        refitted=library.folds > 0,
    )
    test = None
    if library.test is not None and library.y_test is not None:
        test = replace(
            searched,
            labels=library.y_test,
            subgroups=codes[1],
            units=None,
            refitted=False,
            part="test",
        )
    return {"search": searched, "test": test}


def rates_of(
    library: Library, asked: Sequence[str], positive: int, subgroups: Sequence[str]
) -> tuple[Measure, ...]:
    """Return the rates that a problem of a library is asked for, and those of subgroups.

    Raises
    ------
    InputError
        Regression, or rates that cannot be had.
    """
    if not asked and not subgroups:
        return ()
    if library.classes is None:
        raise InputError(
            "problem.rates and problem.subgroup: expected classifiers, found models for regression"
        )
    return rates(asked, library.classes, positive, subgroups)


def subgroups_of(section: LibrarySection, column: str | None) -> tuple[Subgroups, ...]:
    """Return the subgroups of the validation and the test records of a library; empty for none.

    Raises
    ------
    InputError
        The library is not built here, so that its records are not at hand, or the column is none
        of theirs.
    """
    if column is None:
        return ()
    if section.build is None:
        raise InputError(
            "problem.subgroup: expected together with problem.library.build, found a library that "
            "is read, which has no columns; give build beside path"
        )
    from framework.libraries.training import record_subgroups  # workers do without it

    return record_subgroups(section.build, column, "problem.library.build")


def known_records(
    built: BuildConfig | None, library: Library, frame: pd.DataFrame, codes: IntArray
) -> tuple[WordArray, WordArray] | None:
    """Return codes of labelled records, and of those that a library was trained and measured on.

    See :meth:`framework.problem.Deployable.known_records`. None where the library is not built
    here, so that its records are not at hand.
    """
    encoder = None if library.folder is None else load_encoder(library.folder)
    if built is None or encoder is None:
        return None
    from framework.libraries.training import searched_records  # workers do without it

    searched, labels = searched_records(built, "problem.library.build")

    def of(records: pd.DataFrame, y: IntArray) -> WordArray:  # -0.0 is 0.0
        return row_codes(np.column_stack([encoder.transform(records), y.astype(np.float64)]) + 0.0)

    return of(frame, codes), of(searched, labels)


def each_name_once(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """Return the metrics of a problem.

    Raises
    ------
    InputError
        A cost of the library has the name of another metric.
    """
    names = [metric.name for metric in metrics]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"library: expected costs with other names than metrics have, found a cost named "
            f"{twice!r}; rename it"
        )
    return tuple(metrics)


def describe(library: Library, fingerprint: str) -> Mapping[str, Any]:
    """Return name, size and classes of a library, as :class:`framework.problem.Described` says."""
    tested = 0 if library.y_test is None else len(library.y_test)
    rows = len(library.y_validation)
    records = rows if library.units is None else int(library.units.max()) + 1
    seen: dict[str, Any] = {"validation": records}
    if library.folds:
        times = f", {rows // records} times" if rows > records else ""
        seen = {
            "out_of_fold": records,
            "measured": f"out-of-fold on {records:,} records",
            "measure": f"cross-validation, {library.folds} folds{times}",
        }
    return {
        "name": library.name,
        "source": str(library.folder or "a library in memory"),
        "fingerprint": fingerprint,
        "records": records + tested,
        **seen,
        "test": tested,
        "models": len(library),
        "classes": [str(label) for label in library.classes or ()],
    }


def positive_label(section: LibrarySection, library: Library, named: Any) -> Any:
    """Return the label a problem calls positive: its own, else that of the data set to build of."""
    if named is None and section.build is not None and len(library.classes or ()) == 2:
        return section.build.dataset.positive
    return named


def positive_code(library: Library, label: Any) -> int:
    """Return the position of the positive class; the second one if no label is given.

    Raises
    ------
    InputError
        The library has not two classes, or none with this label.
    """
    if label is None:
        return 1
    labels = [str(one) for one in library.classes or ()]
    if len(labels) != 2:
        raise InputError(
            f"problem.positive: expected a library of two classes, found {len(labels)} in "
            f"{library.name}; leave it out"
        )
    if str(label) not in labels:
        raise InputError(
            f"problem.positive: expected one of the classes "
            f"{', '.join(map(repr, library.classes or ()))}, found {label!r}"
            f"{nearest(str(label), labels)}"
        )
    return labels.index(str(label))
