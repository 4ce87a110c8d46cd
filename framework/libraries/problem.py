"""Problems whose candidates choose models of a library: what they share, and its configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import BeforeValidator

from framework.answering import AnsweringProblem
from framework.answers import Part, Records
from framework.arrays import FloatArray, IntArray, WordArray, frozen, record_codes
from framework.data.columns import Label
from framework.data.divisions import Subgroups, subgroups_of
from framework.data.splits import MeasureConfig
from framework.errors import InputError
from framework.libraries.config import BuildConfig, LibrarySection, measured_as
from framework.libraries.library import Library
from framework.libraries.members import example_records, has_members, load_encoder
from framework.measures import Rates
from framework.measures import rates as rates_of
from framework.problem import Deployable
from framework.registry import class_text, nearest, require_known
from framework.roles import Metric
from framework.settings import Section

if TYPE_CHECKING:
    import pandas as pd


Names = Annotated[tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)]
"""Names in a configuration: a list of them, or a text for a single one."""


class LibraryKeys(Section):
    """What the ``problem`` sections of these problems have in common.

    library : ``{path: DIR}``, or ``{build: {...}}``: how to make one.
    measure : what candidates of a library that is built are measured on: out-of-fold on all records
        but the test records, or a holdout of ``split.validation`` (a third of them); as the keys of
        the build say unless given.
    positive : label of the positive class of two; else that of the data set of ``library.build``,
        else the library's second class.
    costs : which costs of the library to report; all unless given.
    subgroup : column of the data set of ``library.build`` that tells subgroups apart; metrics
        compare them.
    """

    library: LibrarySection
    measure: MeasureConfig | None = None
    positive: Label | None = None
    costs: Names | None = None
    rates: Rates = ()
    subgroup: str | None = None


class LibraryProblem(AnsweringProblem, Deployable):
    """Base of problems whose genomes say which models of a library are members.

    Models are never called: everything follows from their predictions. A subclass adds ``space``,
    :attr:`measures`, :meth:`answers`, :meth:`direct`, and the model that the members make.

    Parameters
    ----------
    library : Library
    positive : optional
        Label of the positive class of two; the second one if None.
    costs : sequence of str, optional
        Costs of the library that are reported; all of them if None.
    rates : sequence of str
        Further metrics; see :func:`framework.measures.rates`.
    subgroups : sequence of Subgroups
        Of the validation records and of the test records, or empty.

    Attributes
    ----------
    positive : int
        Code of the positive class; 1 where there are not two classes.
    costs : tuple of str
        Names of the costs that are reported.
    cost_table : float64 (K, costs)
        What each model costs.
    rates : tuple of Measure
        The further metrics, and those that compare subgroups.
    asked : list
        The rates and subgroups as JSON values, for the fingerprint.
    built : BuildConfig or None
        How the library was built, if a configuration says so.

    Raises
    ------
    InputError
        The library lacks a label or a cost, or is for regression, which has no rates.
    """

    built: BuildConfig | None = None

    def __init__(
        self,
        library: Library,
        *,
        positive: Any = None,
        costs: Sequence[str] | None = None,
        rates: Sequence[str] = (),
        subgroups: Sequence[Subgroups] = (),
    ) -> None:
        self.library = library
        self.positive = positive_code(positive, library.classes or ())
        expected = f"costs of the library ({', '.join(library.costs) or 'it has none'})"
        require_known(costs or (), library.costs, f"problem.costs: expected {expected},")
        self.costs = tuple(library.costs if costs is None else costs)
        code = self.positive if len(library.classes or ()) == 2 else -1
        names = subgroups[0].names if subgroups else ()
        cost_table = np.zeros((len(library), len(self.costs)))
        for c, name in enumerate(self.costs):
            cost_table[:, c] = library.costs[name].values
        self.cost_table: FloatArray = frozen(cost_table)
        self.answered = _answered_records(library, code, subgroups)
        if (rates or subgroups) and library.classes is None:
            key = "rates" if rates else "subgroup"
            raise InputError(f"problem.{key}: expected classifiers, found models for regression")
        self.rates = rates_of(rates, library.classes or (), code, names)
        self.asked: list[Any] = [list(rates)]
        self.asked += [of.content for of in subgroups]

    @classmethod
    def of_section(cls, config: LibraryKeys, models: int | None = None, **options: Any) -> Self:
        """Open or build the library of a section, and make the problem of its first models.

        Parameters
        ----------
        config : LibraryKeys
        models : int, optional
            How many of its models; all if None.
        **options
            Further arguments of the class.

        Raises
        ------
        InputError
            Something is wrong with the library or with another key.
        """
        # not needed by workers
        from framework.libraries.build import obtain_library
        from framework.libraries.training import record_subgroups

        section = measured_as(config.library, config.measure)
        # before anything is trained
        subgroups = record_subgroups(section.build, config.subgroup, "problem.library.build")
        library = obtain_library(section, check_classes=cls.check_classes)
        if models is not None:
            library = library.first(models)
        problem = cls(
            library,
            positive=positive_label(config.positive, section.build, library.classes or ()),
            costs=config.costs,
            rates=config.rates,
            subgroups=subgroups,
            **options,
        )
        problem.built = section.build
        return problem

    @staticmethod
    def check_classes(classes: Sequence[Any] | None, title: str) -> None:
        """Refuse a library with classes that the problem does not take; None for regression."""

    def cost_metrics(self, highs: FloatArray) -> list[Metric]:
        """Return the metric of each cost; ``highs``, shape (costs,), are their greatest values."""
        return [
            Metric(
                name,
                "min",
                "ratio",
                high=float(high) or 1.0,
                unit=self.library.costs[name].unit,
                text="sum over the members",
            )
            for name, high in zip(self.costs, highs, strict=True)
        ]

    def example(self) -> Mapping[str, list[Any]]:
        return example_records(self.library)

    @property
    def has_models(self) -> bool:
        return has_members(self.library)

    def known_records(
        self, frame: pd.DataFrame, codes: IntArray
    ) -> tuple[WordArray, WordArray] | None:
        return known_records(self.built, self.library, frame, codes)


def _answered_records(
    library: Library, positive: int, subgroups: Sequence[Subgroups]
) -> dict[Part, Records | None]:
    """Return the records of a library that candidates answer, by part; ``positive`` may be -1."""
    searched = Records(
        library.y_validation,
        tuple(library.classes or ()),
        positive,
        units=library.units,
        refitted=library.folds > 0,
        **subgroups_of(subgroups, "search"),
    )
    test = None
    if library.test is not None and library.y_test is not None:
        test = replace(
            searched,
            labels=library.y_test,
            units=None,
            refitted=False,
            part="test",
            **subgroups_of(subgroups, "test"),
        )
    return {"search": searched, "test": test}


def known_records(
    built: BuildConfig | None, library: Library, frame: pd.DataFrame, codes: IntArray
) -> tuple[WordArray, WordArray] | None:
    """Return codes of labelled records, and of those that a library was trained and measured on.

    Equal records have equal codes: see :meth:`framework.problem.Deployable.known_records`. None
    where the library is not built here, so that its records are not at hand.
    """
    encoder = None if library.folder is None else load_encoder(library.folder)
    if built is None or encoder is None:
        return None
    from framework.libraries.training import searched_records  # not needed by workers

    searched, labels = searched_records(built, "problem.library.build")
    asked, seen = encoder.transform(frame), encoder.transform(searched)
    return record_codes(asked, codes), record_codes(seen, labels)


def describe(library: Library, fingerprint: str) -> Mapping[str, Any]:
    """Return name, size and classes of a library, as :class:`framework.problem.Described` says."""
    tested = 0 if library.y_test is None else len(library.y_test)
    records = library.records
    sizes: dict[str, Any] = {"validation": records}
    if library.folds:
        times = f", {library.repeats} times" if library.repeats > 1 else ""
        sizes = {
            "out_of_fold": records,
            "measured": f"out-of-fold on {records:,} records",
            "measure": f"cross-validation, {library.folds} folds{times}",
        }
    return {
        "name": library.name,
        "source": str(library.folder or "a library in memory"),
        "fingerprint": fingerprint,
        "records": records + tested,
        **sizes,
        "test": tested,
        "models": len(library),
        "classes": [str(label) for label in library.classes or ()],
        **({"notes": list(library.notes)} if library.notes else {}),
    }


def positive_label(label: Any, build: BuildConfig | None, classes: Sequence[Any]) -> Any:
    """Return the positive class of a problem: its own label, or that of the data of its library."""
    if label is None and build is not None and len(classes) == 2:
        return build.dataset.positive
    return label


def positive_code(label: Any, classes: Sequence[Any]) -> int:
    """Return the position of the positive class; 1 if no label is given."""
    if label is None:
        return 1
    labels = [str(one) for one in classes]
    if len(labels) != 2:
        raise InputError(
            f"problem.positive: expected two classes, found {len(labels)}; leave it out"
        )
    if (text := class_text(label, classes)) not in labels:
        raise InputError(
            f"problem.positive: expected one of the classes {', '.join(map(repr, classes))}, "
            f"found {label!r}{nearest(str(label), labels)}"
        )
    return labels.index(text)
