"""The ``problem`` section of cascades, and the tables of calls that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pandas as pd
from pydantic import Field

from algorithms.cascade.stages import AnswerRule, Calibration
from framework.data.columns import Label
from framework.data.divisions import Subgroups, subgroups_in
from framework.data.splits import MeasureConfig
from framework.errors import InputError
from framework.libraries.calls import CallTable
from framework.libraries.config import CallsSection, measured_as
from framework.libraries.library import Library
from framework.libraries.members import call_times
from framework.measures import Rates
from framework.settings import Section

Abstain = Literal["no", "last", "early"]
Order = Literal["price", "free"]


class CascadeConfig(Section):
    """The ``problem`` section of kind ``cascade``.

    calls : ``{path: FILE}``, a table of calls, or ``{library: {...}}``.
    measure : the records on which the models of a library that is built are measured: out-of-fold
        on all records but the test records, or a holdout. The keys of ``build`` say so by default.
    order : in which order models are asked: by ``price``, their mean cost on the tuning records, or
        ``free``, as further genes say.
    answer : which answer counts: that of the model asked last (``own``), that of the mean
        probabilities of all models asked so far (``cumulative_mean``), or a majority ``vote``.
    abstain : whether records may stay without an answer (``no``, ``last`` or ``early``). With
        ``last``, the answer of the last model has to reach a threshold, too. With ``early``, each
        model may also give a record up, below a second threshold.
    limit : a value of the first cost; the metric ``over_limit`` is the share of records above it.
    positive : label of the positive class of two; else that of the data set of
        ``calls.library.build``, else the second label. Only rates and subgroups ask for it.
    subgroup : column of the tables or of the library's data that tells subgroups apart; metrics
        compare them.
    errors : what it costs to answer one label for another, ``{TRUE: {SAID: cost}}``; the metric is
        ``error_cost``. What is not listed costs 0.
    no_answer : what a record without an answer adds to ``error_cost``.
    calibrate : whether ``calibrated_accuracy`` is made from all models' ``confidences`` or from the
        ``consensus`` of their probabilities (:meth:`algorithms.cascade.stages.Stages.tens`).
    """

    calls: CallsSection
    measure: MeasureConfig | None = None
    order: Order = "price"
    answer: AnswerRule = "own"
    abstain: Abstain = "no"
    limit: float | None = Field(default=None, ge=0)
    rates: Rates = ()
    positive: Label | None = None
    subgroup: str | None = None
    errors: dict[str, dict[str, float]] | None = None
    no_answer: float = Field(default=0.0, ge=0)
    calibrate: Calibration = "confidences"


def obtain_calls(
    section: CallsSection, measure: MeasureConfig | None = None, subgroup: str | None = None
) -> tuple[CallTable, CallTable | None, Library | None, Sequence[Subgroups]]:
    """Return the tuning table, the test table and the library that a section describes.

    Last are the subgroups of the records of both tables, if there is a column of them.

    Raises
    ------
    InputError
        A file cannot be read, or the library cannot be built.
    """
    from framework.libraries.build import obtain_library  # not imported by workers
    from framework.libraries.call_files import read_with
    from framework.libraries.training import record_subgroups

    library = None
    test: CallTable | None = None
    subgroups: Sequence[Subgroups] = ()
    if section.library is None and measure is not None:
        raise InputError(
            "problem.measure: expected together with problem.calls.library.build, found a table in "
            "a file, whose records were chosen when it was made; leave measure out"
        )
    if section.library is not None:
        built = measured_as(section.library, measure)
        subgroups = record_subgroups(built.build, subgroup, "problem.calls.library.build")
        library = obtain_library(built, where="problem.calls.library")
        times = call_times(library)
        fixed = None if times is None else {"inference_time": times}
        calls = CallTable.of(library, costs=section.costs, fixed=fixed)
        if library.test is not None:
            test = CallTable.of(library, "test", section.costs, fixed)
    else:
        paths = [path for path in (section.path, section.test) if path is not None]
        tables, columns = zip(
            *(read_with(path, subgroup, section.layout, section.prices) for path in paths),
            strict=True,
        )
        calls, test = tables[0], tables[1] if section.test is not None else None
        if subgroup is not None:  # named alike in both tables
            every = subgroups_in(pd.concat(columns))
            subgroups = every.take(slice(calls.n)), every.take(slice(calls.n, None))
        if section.costs is not None:
            calls = _with_costs(calls, section.costs)
    if section.models is not None:
        calls = calls.only(section.models)
    return calls, test, library, subgroups


def _with_costs(calls: CallTable, names: Sequence[str]) -> CallTable:
    for name in names:
        if name not in calls.costs:
            raise InputError(
                f"problem.calls.costs: expected costs of the table ({', '.join(calls.costs)}), "
                f"found {name!r}"
            )
    return replace(calls, costs={name: calls.costs[name] for name in names})
