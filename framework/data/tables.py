"""The section ``dataset`` of a configuration, and the table that it describes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from framework.data import sources
from framework.data.assemble import Raw, Table, ValueTable, assemble, assemble_values
from framework.data.columns import ColumnOptions
from framework.data.files import FileOptions, size_of
from framework.data.labels import Label
from framework.limits import TABLE_CELLS
from framework.settings import PlacedPath, Rate, Section

__all__ = [
    "DatasetConfig",
    "SyntheticConfig",
    "Table",
    "ValueTable",
    "load_table",
    "load_values",
    "memory_to_load",
]

_ROUNDED = 1e-6
_VALUE = 8  # bytes
_TIMES = 5  # as large as its values a table is while it is loaded
_SOURCES = ("name", "path", "sklearn", "openml", "synthetic")


class SyntheticConfig(Section):
    """Parameters of ``sklearn.datasets.make_classification``; features are ``f1`` ... ``fn``."""

    samples: int = Field(default=1000, ge=6)
    features: int = Field(default=20, ge=1)
    informative: int = Field(default=2, ge=1)
    redundant: int = Field(default=0, ge=0)
    classes: int = Field(default=2, ge=2)
    clusters_per_class: int = Field(default=2, ge=1)
    class_sep: float = Field(default=1.0, gt=0)
    flip_y: float = Field(default=0.01, ge=0, le=1)
    weights: list[Rate] | None = None
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _possible(self) -> SyntheticConfig:
        if self.samples * self.features > TABLE_CELLS:
            raise ValueError(
                f"expected at most {TABLE_CELLS:,} values, samples times features, found "
                f"{self.samples * self.features:,}"
            )
        if sum(self.weights or ()) > 1 + _ROUNDED:
            raise ValueError(
                f"expected weights, shares of the classes, of together at most 1, found "
                f"{sum(self.weights or ()):g}"
            )
        if self.informative + self.redundant > self.features:
            raise ValueError(
                f"expected informative + redundant of at most {self.features} features, found "
                f"{self.informative + self.redundant}"
            )
        clusters = self.classes * self.clusters_per_class
        if self.informative < 31 and clusters > 2**self.informative:
            raise ValueError(
                f"expected at most 2**informative = {2**self.informative} clusters, found "
                f"classes * clusters_per_class = {clusters}; raise informative"
            )
        return self


class DatasetConfig(Section):
    """The source of a data set, exactly one of the first five keys, and how to read it.

    name : a file of the folder ``PARETOLAB_DATA`` without its ending, or a known set.
    path : a CSV (also ``.csv.gz``) or Parquet file, or a folder of Parquet files, relative to the
        configuration's folder.
    sklearn : a data set that is part of scikit-learn.
    openml : an id or a name of OpenML, the latter with ``version`` (the active one if None).
    synthetic : a generated set.
    target : column of the labels.
    categorical : columns that mean categories, though they look like numbers or dates.
    drop : columns to leave out.
    columns : the only columns to take as features, if any are named.
    keep : columns to take although they look like identifiers, free text or constants.
    identifier : the column that names the records: no feature, shown in predictions.
    separator : of the fields of a CSV file; recognised if None.
    decimal : the mark of decimals in numbers written as text; recognised if None.
    missing : texts that stand for a missing value.
    dates : the form of dates by column, such as ``%d.%m.%Y``; recognised if not given.
    max_categories : most categories of a column that are told apart; the rarer ones are one.
    merge_rare : classes with fewer records become one class, ``other``.
    positive : label of the positive class; the last one of two classes if it is not given.

    What columns hold is inferred, and doubtful ones are told, for ``path`` and ``openml``; the
    other sources have tables that were prepared.
    """

    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
    path: PlacedPath | None = None
    sklearn: sources.BuiltIn | None = None
    openml: Annotated[int, Field(ge=1)] | str | None = None
    synthetic: SyntheticConfig | None = None
    version: int | None = Field(default=None, ge=1)
    target: str = sources.TARGET
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    identifier: str | None = None
    separator: Literal[",", ";", "\t", "|"] | None = None
    decimal: Literal[".", ","] | None = None
    missing: tuple[str, ...] = ()
    dates: dict[str, str] = Field(default_factory=dict)
    max_categories: int = Field(default=100, ge=1)
    merge_rare: int | None = Field(default=None, ge=2)
    positive: Label | None = None

    @model_validator(mode="after")
    def _one_source(self) -> DatasetConfig:
        given = [key for key in _SOURCES if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(
                f"expected exactly one of {', '.join(_SOURCES)}; found "
                f"{' and '.join(given) or 'none'}"
            )
        if self.version is not None and not isinstance(self.openml, str):
            raise ValueError("expected version only with openml and a name (an id has one)")
        return self

    def options(self) -> ColumnOptions:
        """Return what the keys say of columns."""
        return ColumnOptions(
            categorical=self.categorical,
            drop=self.drop,
            columns=self.columns,
            keep=self.keep,
            identifier=self.identifier,
            decimal=self.decimal,
            missing=self.missing,
            dates=self.dates,
            max_categories=self.max_categories,
            infer=self.path is not None or self.openml is not None,
        )


def load_table(config: DatasetConfig, where: str = "problem.dataset") -> Table:
    """Load and check the data set of a configuration.

    Parameters
    ----------
    config : DatasetConfig
    where : str
        Key of the section, for messages.

    Raises
    ------
    InputError
        The data cannot be loaded, or cannot be used.
    """
    return assemble(
        _raw(config, where),
        where,
        target=config.target,
        options=config.options(),
        positive=config.positive,
        merge_rare=config.merge_rare,
    )


def memory_to_load(config: DatasetConfig) -> int:
    """Return roughly how many bytes it takes to load and encode a table; 0 where it is small.

    At the peak a table of numbers is there several times: as read, as checked, as its parts.
    """
    made = config.synthetic
    if made is not None:
        return _TIMES * _VALUE * made.samples * made.features
    path = config.path if config.name is None else sources.file_of(config.name)
    return 0 if path is None else _TIMES * size_of(path, _file_options(config))


def load_values(config: DatasetConfig, where: str = "problem.dataset") -> ValueTable:
    """Load and check a data set for regression; parameters and errors as of :func:`load_table`."""
    return assemble_values(
        _raw(config, where),
        where,
        target=config.target,
        options=config.options(),
    )


def _raw(config: DatasetConfig, where: str) -> Raw:
    if config.name is not None:
        return sources.from_name(config.name, where, _file_options(config))
    if config.sklearn is not None:
        return sources.from_sklearn(config.sklearn)
    if config.openml is not None:
        return sources.from_openml(config.openml, config.version, where)
    if config.synthetic is not None:
        return _synthetic(config.synthetic, where)
    assert config.path is not None  # one source is given: the model says so
    return sources.from_path(config.path, _file_options(config))


def _file_options(config: DatasetConfig) -> FileOptions:
    wanted = [*config.columns, config.target, *filter(None, [config.identifier])]
    return FileOptions(config.separator, tuple(wanted) if config.columns else None)


def _synthetic(config: SyntheticConfig, where: str) -> Raw:
    return sources.from_generator(
        where,
        n_samples=config.samples,
        n_features=config.features,
        n_informative=config.informative,
        n_redundant=config.redundant,
        n_classes=config.classes,
        n_clusters_per_class=config.clusters_per_class,
        class_sep=config.class_sep,
        flip_y=config.flip_y,
        weights=config.weights,
        random_state=config.seed,
    )
