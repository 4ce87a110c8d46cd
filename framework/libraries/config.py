"""The section ``library`` of a configuration: which models to train on which data."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from framework.data.columns import Label
from framework.data.datasets import DatasetConfig
from framework.data.splits import MeasureConfig
from framework.effects import note
from framework.errors import InputError
from framework.libraries.pool import FAMILIES
from framework.registry import nearest
from framework.settings import FolderName, PlacedPath, Section

Task = Literal["classification", "regression"]

_HELD_OUT = 1 / 3  # of the records that are not for testing, where split.validation is not given


class LibrarySplit(Section):
    """The test records are kept out; the others are what the models are trained on.

    test : share of the records that is kept out; not with ``folds``.
    folds, fold : instead of a share, the test records are number ``fold`` (from 0) of so many
        stratified folds of all records.
    validation : share of the other records that is held out; the models are trained on the rest and
        predict these. If None, they predict all others out-of-fold and are then trained on all.
    seed : of the shuffle.
    stratify : whether each part has each class's share.
    group, time, window : columns that divide the records, as in ``problem.split`` of a table:
        records of a group are in one part, one fold and one resample; parts and folds follow each
        other in time. Not with ``folds``.
    copies : whether records whose features are all equal stay together too. Without ``group`` they
        are divided as they fall unless it says so, and you are told. Not with ``folds``.
    """

    test: float = Field(default=0.25, ge=0, lt=1)
    folds: int | None = Field(default=None, ge=2)
    fold: int = Field(default=0, ge=0)
    validation: float | None = Field(default=None, gt=0, lt=1)
    seed: int = Field(default=0, ge=0)
    stratify: bool = True
    group: str | None = None
    time: str | None = None
    window: Literal["growing", "sliding"] | None = None
    copies: Literal["together", "apart"] | None = None

    @property
    def by_chance(self) -> bool:
        """Whether each record is divided for itself."""
        return not self.columns and self.copies != "together"

    @property
    def columns(self) -> dict[str, str]:
        """The columns that keys name, by key: they are no features."""
        named = {"group": self.group, "time": self.time}
        return {key: name for key, name in named.items() if name is not None}

    @model_validator(mode="after")
    def _one_way(self) -> LibrarySplit:
        # a configuration that was written out names the default too
        if self.folds is not None and self.test != type(self).model_fields["test"].default:
            raise ValueError("expected test or folds, found both: a fold is the test part")
        if self.folds is not None and not self.by_chance:
            raise ValueError(
                f"expected {' and '.join(self.columns) or 'copies'} with test, found folds; "
                "folds of all records are dealt by chance"
            )
        if self.time is not None and self.copies == "together":
            raise ValueError(
                "expected copies: apart with time, found together; a copy may come again later"
            )
        if self.window is not None and self.time is None:
            raise ValueError(f"expected window only with time, found window: {self.window} alone")
        if self.fold >= (self.folds or 1):
            raise ValueError(
                f"expected fold from 0 to below folds={self.folds or 1}, found {self.fold}"
            )
        return self


class BuildConfig(Section):
    """A pool of models to train.

    name : what reports call the library.
    dataset : any data set, as in ``problem.dataset``.
    task : with ``regression`` the target holds values.
    split : which records are kept for testing.
    folds : of the cross-validation whose out-of-fold predictions are the validation table.
    repeats : how often the records are divided into folds; the validation table has each of them
        so many times.
    models : how many; a smaller library is the beginning of a larger one.
    families : of models, in turn; all that are quick enough for the number of records if None.
    balanced : whether each family has the same number of models, in turn; where a family has little
        to vary, its models are trained on drawn records and features.
    measured : whether inference time, memory and disk of each model are measured; otherwise the
        library has no costs.
    latency : whether the time of a call for one record and for 1,000 (its median and 95% quantile)
        and its processor time are measured too.
    keep_models : whether the fitted models stay in the folder; otherwise nothing can be exported.
    seed : of parameters, of folds and of the models' own randomness.
    """

    name: FolderName
    dataset: DatasetConfig
    task: Task = "classification"
    split: LibrarySplit = LibrarySplit()
    folds: int = Field(default=5, ge=2)
    repeats: int = Field(default=1, ge=1)
    models: int = Field(default=60, ge=1)
    families: tuple[str, ...] | None = Field(default=None, min_length=1)
    balanced: bool = False
    measured: bool = True
    latency: bool = False
    keep_models: bool = True
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _known_families(self) -> BuildConfig:
        names = [name for name, family in FAMILIES.items() if family.fits(self.task)]
        for name in self.families or ():
            if name not in names:
                raise ValueError(
                    f"families: expected some of {', '.join(names)} for a {self.task}, found "
                    f"{name!r}{nearest(name, names)}"
                )
        if len(set(self.families or ())) < len(self.families or ()):
            raise ValueError("families: expected each family once, found one twice")
        if self.balanced and (self.families is None or self.models % len(self.families)):
            raise ValueError(
                "balanced: expected families and a multiple of their number as models, found "
                f"{len(self.families or ())} families and models={self.models}"
            )
        if self.latency and not self.measured:
            raise ValueError(
                "latency: expected true only where models are measured, found measured: false; "
                "leave out one of them"
            )
        return self


class LibrarySection(Section):
    """Where a library is: ``{path: DIR}`` reads one, ``{build: {...}}`` builds it if it is missing.

    path : the folder of a library, relative to that of the configuration.
    build : what to train if there is no library yet; it is written to ``path``, or to the cache.
    """

    path: PlacedPath | None = None
    build: BuildConfig | None = None

    @model_validator(mode="after")
    def _one_source(self) -> LibrarySection:
        if self.path is None and self.build is None:
            raise ValueError("expected path or build, found neither")
        if self.path is not None and self.build is not None:
            note("write", str(self.path), "path", self.path)
        return self


def measured_as(section: LibrarySection, measure: MeasureConfig | None) -> LibrarySection:
    """Return the section of a library, changed so that models are measured as ``measure`` says.

    If it is None, the keys of the build say how: by a cross-validation, unless there is
    ``split.validation``.

    Raises
    ------
    InputError
        The library is not built here.
    """
    if measure is None:
        return section
    if section.build is None:
        raise InputError(
            "problem.measure: expected together with problem.library.build, found a library that "
            "is read; what its predictions are of was decided when it was made, so leave measure "
            "out"
        )
    split = section.build.split
    changes: dict[str, Any]
    if measure.kind == "holdout":
        share = _HELD_OUT if split.validation is None else split.validation
        changes = {"split": split.model_copy(update={"validation": share})}
    else:
        changes = {
            "split": split.model_copy(update={"validation": None}),
            "folds": measure.folds,
            "repeats": measure.repeats,
        }
    return section.model_copy(update={"build": section.build.model_copy(update=changes)})


class CallsSection(Section):
    """Where a table of calls is: in a file, or what a library's models answered.

    path, test : tables of calls on the records of the search and on test records.
    layout : ``wide`` or ``long``; recognised if None (:mod:`framework.libraries.call_files`).
    prices : what a call of each model costs, where the tables do not say.
    library : instead of ``path``: a library of classifiers, whose validation records become the
        calls and whose test records the test.
    models : which models; all unless given.
    costs : which costs; models are ordered by the first one. All unless given.
    """

    path: PlacedPath | None = None
    test: PlacedPath | None = None
    layout: Literal["wide", "long"] | None = None
    prices: dict[str, float] | None = None
    library: LibrarySection | None = None
    models: tuple[str, ...] | None = Field(default=None, min_length=1)
    costs: tuple[str, ...] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_source(self) -> CallsSection:
        if (self.path is None) == (self.library is None):
            fault = "neither" if self.path is None else "both"
            raise ValueError(f"expected path or library, found {fault}")
        if self.library is not None and (self.test is not None or self.prices is not None):
            raise ValueError("expected test and prices beside path only; a library has its own")
        return self


class ArraysConfig(Section):
    """Predictions, labels and costs in files: ``.npy``, ``.csv``, ``.csv.gz`` or ``.parquet``.

    validation, test : arrays (K, N) or (K, N, C); or tables with one row per record and one
        column per model (``ID``; ``ID:CLASS`` for several classes).
    y_validation, y_test : arrays (N,), or tables of one column.
    classes : in the order of the probabilities; none for regression.
    ids : of the models; else those of the costs, else of the tables' columns.
    costs : a table with a column ``id`` and one column per cost.
    units : of costs, by name.
    configs : JSON, a mapping of id to config.
    normalise : divide the probabilities of each record by their sum.
    """

    validation: PlacedPath
    y_validation: PlacedPath
    test: PlacedPath | None = None
    y_test: PlacedPath | None = None
    classes: tuple[Label, ...] | None = None
    ids: tuple[str, ...] | None = None
    costs: PlacedPath | None = None
    units: dict[str, str] = Field(default_factory=dict)
    configs: PlacedPath | None = None
    normalise: bool = False


class ModelsConfig(Section):
    """Fitted scikit-learn models and tables of records that they were not fitted on.

    folder : holds ``ID.skops`` or ``ID/model.skops`` files.
    validation, test : tables with the features' columns and the target's.
    costs, units : as for arrays, beside those that are measured.
    """

    folder: PlacedPath
    validation: PlacedPath
    test: PlacedPath | None = None
    target: str = "target"
    costs: PlacedPath | None = None
    units: dict[str, str] = Field(default_factory=dict)


class TabRepoConfig(Section):
    """One data set and fold of a context that lies on disk in TabRepo's layout.

    folder : of the context, with ``configs.parquet`` and ``model_predictions/``.
    missing : what to do with models without a measured time: leave them out, or take the mean.
    costs : a table with a column ``id`` and further costs.
    configs : JSON, a mapping of model to hyperparameters.
    """

    folder: PlacedPath
    dataset: str = Field(pattern=r"^[^/\\]+$")  # a folder of the context, and no other
    fold: int = Field(default=0, ge=0)
    missing: Literal["drop", "mean"] = "drop"
    costs: PlacedPath | None = None
    configs: PlacedPath | None = None
    normalise: bool = True


class ImportConfig(Section):
    """The name of a library, and exactly one source to import it from."""

    name: str
    arrays: ArraysConfig | None = None
    models: ModelsConfig | None = None
    tabrepo: TabRepoConfig | None = None

    @model_validator(mode="after")
    def _one_place(self) -> ImportConfig:
        places: list[Any] = [self.arrays, self.models, self.tabrepo]
        if sum(place is not None for place in places) != 1:
            raise ValueError("expected exactly one of arrays, models, tabrepo")
        return self
