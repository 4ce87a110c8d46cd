"""Data sets: the section ``dataset`` of a configuration, and the table that it describes.

A data set comes from a folder of files, OpenML, scikit-learn or a generator.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pandas as pd
from pydantic import Field, model_validator

from framework.data.columns import TableOptions
from framework.data.table_files import TABLE_ENDINGS, FileOptions, read_frame, size_of
from framework.data.tables import Raw, Table, ValueTable, assemble, assemble_values
from framework.effects import note
from framework.errors import InputError
from framework.registry import nearest
from framework.security import DATA_VARIABLE, TABLE_CELLS
from framework.settings import PlacedPath, Rate, Section

TARGET = "target"

BuiltIn = Literal["breast_cancer", "diabetes", "digits", "iris", "wine"]

_GROUPS = "_groups"  # NAME_groups.csv says which subject each record of NAME.csv is of
_OPENML = "openml.org"
_ROUNDED = 1e-6
_VALUE = 8  # bytes
_TIMES = 5  # a table takes so many times the memory of its values while it is loaded
_SOURCES = ("name", "path", "sklearn", "openml", "synthetic")


class SyntheticConfig(Section):
    """Parameters of ``sklearn.datasets.make_classification``; features are ``f1`` ... ``fn``.

    samples, features : number of records, and of columns.
    informative, redundant : number of features that tell classes apart, and of mixtures of these.
    classes, clusters_per_class : number of classes, and of clusters that each of them has.
    class_sep : distance of the clusters; the greater, the easier.
    flip_y : share of the records whose class is drawn at random.
    weights : shares of the classes; equal ones unless given.
    seed : decides what is drawn.
    """

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


class SourceConfig(Section):
    """The source of a data set, exactly one of the first five keys.

    name : a file of the folder ``PARETOLAB_DATA`` without its ending, or a known set.
    path : a CSV (also ``.csv.gz``) or Parquet file, or a folder of Parquet files, relative to the
        configuration's folder.
    sklearn : a data set that is part of scikit-learn.
    openml : an id or a name of OpenML.
    version : the version of a set that is given by its name on OpenML; the active one if None.
    synthetic : a generated set.
    """

    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
    path: PlacedPath | None = None
    sklearn: BuiltIn | None = None
    openml: Annotated[int, Field(ge=1)] | str | None = None
    synthetic: SyntheticConfig | None = None
    version: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _one_source(self) -> SourceConfig:
        sources = [key for key in _SOURCES if getattr(self, key) is not None]
        if len(sources) != 1:
            raise ValueError(
                f"expected exactly one of {', '.join(_SOURCES)}; found "
                f"{' and '.join(sources) or 'none'}"
            )
        if self.version is not None and not isinstance(self.openml, str):
            raise ValueError("expected version only with openml and a name (an id has one)")
        if self.openml is not None:
            note("host", _OPENML, "openml", self.openml)
        # a known name is not noted: where it is fetched from is written here, not in the file
        return self


class DatasetConfig(TableOptions, SourceConfig):
    """The source of a data set, and how to read it.

    For ``path`` and ``openml`` it is inferred what the columns hold, and doubtful ones are
    reported; the tables of other sources were prepared.
    """

    @property
    def infer(self) -> bool:
        return self.path is not None or self.openml is not None

    def file_options(self, aside: Collection[str] = ()) -> FileOptions:
        """Return how a file is read; columns ``aside`` are read too."""
        others = filter(None, [self.identifier])
        wanted = [*self.columns, *self.drop, self.target, *others, *aside]
        return FileOptions(self.separator, tuple(wanted) if self.columns else None)


def load_table(
    config: DatasetConfig,
    where: str = "problem.dataset",
    aside: Mapping[str, str] | None = None,
    subgroup: str | None = None,
) -> Table:
    """Load and check the data set of a configuration.

    Parameters
    ----------
    aside : mapping, optional
        Columns that divide the records and are no features, by the key that names them. For a file
        NAME.csv of the folder ``PARETOLAB_DATA`` they may be in NAME_groups.csv beside it, which
        has a row for each record.
    subgroup : str, optional
        A column that tells subgroups apart; it is in ``aside``, too, and may also be a feature.

    Raises
    ------
    InputError
        The data cannot be loaded, or cannot be used.
    """
    roles = dict(aside or {})
    read = {*roles.values(), *filter(None, [subgroup])}
    beside = _beside(config, read, where)
    raw = _raw(config, where, read - set(beside.columns))
    if len(beside.columns):
        if len(beside) != len(raw.frame):
            raise InputError(
                f"{where}: expected {len(raw.frame):,} rows in {config.name}{_GROUPS}, one for "
                f"each record of {raw.source}, found {len(beside):,}"
            )
        raw = raw._replace(frame=raw.frame.assign(**beside))
    if subgroup in beside.columns:
        roles["subgroup"] = str(subgroup)  # no column of the data set, and so no feature
    return assemble(raw, where, config, roles, subgroup)


def load_values(config: DatasetConfig, where: str = "problem.dataset") -> ValueTable:
    """Load and check a data set for regression; parameters and errors: see :func:`load_table`."""
    return assemble_values(_raw(config, where), where, config)


def memory_to_load(config: DatasetConfig) -> int:
    """Return roughly how many bytes it takes to load and encode a table; 0 where it is small.

    At the peak, there are several copies of a table: as read, as checked, as its parts.
    """
    synthetic = config.synthetic
    if synthetic is not None:
        return _TIMES * _VALUE * synthetic.samples * synthetic.features
    path = config.path if config.name is None else _file_of(config.name)
    return 0 if path is None else _TIMES * size_of(path, config.file_options())


def _beside(config: DatasetConfig, wanted: Collection[str], where: str) -> pd.DataFrame:
    """Return the wanted columns that NAME_groups.csv has and the data set NAME lacks."""
    path = None if config.name is None else _file_of(f"{config.name}{_GROUPS}")
    if path is None or config.name is None or not wanted:
        return pd.DataFrame()
    source, frame = _file_of(config.name), read_frame(path)
    present = set() if source is None else set(read_frame(source, config.file_options()).columns)
    return frame[[name for name in frame.columns if name in wanted and name not in present]]


def _raw(config: DatasetConfig, where: str, aside: Collection[str] = ()) -> Raw:
    if config.name is not None:
        return _from_name(config.name, where, config.file_options(aside))
    if config.path is not None:
        name = config.path.name
        for ending in TABLE_ENDINGS:
            name = name.removesuffix(ending)
        return Raw(read_frame(config.path, config.file_options(aside)), name, str(config.path))
    if config.sklearn is not None:
        return _from_sklearn(config.sklearn)
    if config.openml is not None:
        return _from_openml(config.openml, config.version, where)
    assert config.synthetic is not None  # one source is given: the model says so
    return _from_generator(config.synthetic, where)


class _OnOpenML(NamedTuple):
    """A data set on OpenML that a name stands for.

    ``features`` are the names that its features shall have, in order. If OpenML has the same names,
    its columns are put into this order, otherwise they are renamed by position; empty leaves them
    as they are. The target becomes 1 where it is ``positive``, else 0.
    """

    name: str
    version: int
    target: str
    positive: str
    features: str = ""


def _numbered(count: int, prefix: str = "f") -> str:
    return " ".join(f"{prefix}{i}" for i in range(1, count + 1))


_HEART_FAILURE = (
    "age anaemia high_blood_pressure creatinine_phosphokinase diabetes ejection_fraction "
    "platelets sex serum_creatinine serum_sodium smoking time"
)
_PIMA = "pregnancies glucose blood_pressure skin_thickness insulin bmi pedigree age"
_BREAST_W = (
    "clump_thickness uniformity_cell_size uniformity_cell_shape marginal_adhesion "
    "single_epithelial_cell_size bare_nuclei bland_chromatin normal_nucleoli mitoses"
)
_HEART_STATLOG = (
    "age sex chest_pain resting_bp cholesterol fasting_blood_sugar resting_ecg max_heart_rate "
    "exercise_angina oldpeak st_slope major_vessels thal"
)

_KNOWN = {
    "australian": _OnOpenML("Australian", 4, "A15", "1", _numbered(14, "A")),
    "breast_w": _OnOpenML("breast-w", 1, "Class", "malignant", _BREAST_W),
    "german": _OnOpenML("credit-g", 1, "class", "bad"),
    "heart_failure": _OnOpenML("heart-failure", 1, "DEATH_EVENT", "1", _HEART_FAILURE),
    "heart_statlog": _OnOpenML("heart-statlog", 1, "class", "present", _HEART_STATLOG),
    "hill_valley": _OnOpenML("hill-valley", 1, "Class", "1", _numbered(100)),
    "ionosphere": _OnOpenML("ionosphere", 1, "class", "b", _numbered(34)),
    "parkinsons": _OnOpenML("parkinsons", 1, "Class", "2"),
    "pima": _OnOpenML("diabetes", 1, "class", "tested_positive", _PIMA),
    "qsar_biodeg": _OnOpenML("qsar-biodeg", 1, "Class", "2"),
    "sonar": _OnOpenML("sonar", 1, "Class", "Mine", _numbered(60)),
    "spambase": _OnOpenML("spambase", 1, "class", "1"),
    "vote": _OnOpenML("vote", 1, "Class", "republican"),
}


def known_names() -> list[str]:
    """Return the names of data sets: those in the data folder, and those known on OpenML."""
    folder, names = _data_folder(), {*_KNOWN}
    for path in folder.iterdir() if folder is not None and folder.is_dir() else ():
        for ending in TABLE_ENDINGS:
            if path.name.endswith(ending) and not path.name.startswith("."):
                names.add(path.name.removesuffix(ending))
    return sorted(name for name in names if name.removesuffix(_GROUPS) not in names - {name})


def _from_name(name: str, where: str, options: FileOptions) -> Raw:
    """Return a data set by its name: from the folder ``PARETOLAB_DATA``, otherwise from OpenML."""
    folder = _data_folder()
    if folder is not None and not folder.is_dir():
        raise InputError(f"{DATA_VARIABLE}: expected a folder, found {str(folder)!r}")
    path = _file_of(name)
    if path is not None:
        return Raw(read_frame(path, options), name, str(path))
    if name not in _KNOWN:
        names = known_names()
        raise InputError(
            f"{where}.name: expected one of {', '.join(names)}; found {name!r}"
            f"{nearest(name, names)} (other sets: put {name}.csv in the folder that "
            f"{DATA_VARIABLE} names, or use path, sklearn or openml)"
        )
    return _known_on_openml(name, where)


def _file_of(name: str) -> Path | None:
    """Return the file of the folder ``PARETOLAB_DATA`` that a name stands for; None for none."""
    folder = _data_folder()
    for ending in TABLE_ENDINGS if folder is not None else ():
        path = Path(str(folder), name + ending)
        if path.is_file():
            return path
    return None


def _from_openml(dataset: int | str, version: int | None, where: str) -> Raw:
    """Return a data set of OpenML by its id, or by name and version (the active one if None).

    The labels are in the column ``target``, whatever OpenML calls it.
    """
    bunch = _fetch(dataset, version, where)
    frame = bunch.frame.copy()
    label = bunch.target.name if isinstance(bunch.target, pd.Series) else None
    if label is not None and TARGET not in frame.columns:
        frame = frame.rename(columns={label: TARGET})
    details = bunch.details
    source = f"OpenML {details['id']} ({details['name']} version {details['version']})"
    return Raw(frame, str(details["name"]), source)


def _from_sklearn(name: BuiltIn) -> Raw:
    """Return one of the data sets that are part of scikit-learn."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")(as_frame=True)
    frame = bunch.frame.copy()
    if "target_names" in bunch:  # classes; diabetes has values
        frame[TARGET] = [bunch.target_names[code].item() for code in bunch.target]
    return Raw(frame, name, f"scikit-learn {name}")


def _from_generator(config: SyntheticConfig, where: str) -> Raw:
    """Return a data set of ``sklearn.datasets.make_classification`` with columns f1 to fn."""
    from sklearn.datasets import make_classification

    try:
        X, y = make_classification(
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
    except ValueError as error:
        raise InputError(f"{where}.synthetic: {error}") from error
    frame = pd.DataFrame(X, columns=_numbered(X.shape[1]).split())
    frame[TARGET] = y
    return Raw(frame, f"synthetic{X.shape[1]}", f"make_classification with seed {config.seed}")


def _data_folder() -> Path | None:
    folder = os.environ.get(DATA_VARIABLE)
    return Path(os.path.expanduser(folder)).resolve() if folder else None


def _known_on_openml(name: str, where: str) -> Raw:
    entry, place = _KNOWN[name], f"{where}.name {name}"
    bunch = _fetch(entry.name, entry.version, place)
    frame = bunch.frame
    if entry.target not in frame.columns:
        raise InputError(
            f"{where}.name: expected OpenML's {entry.name} version {entry.version} to have a "
            f"column {entry.target!r}, found none; put {name}.csv in the folder that "
            f"{DATA_VARIABLE} names"
        )
    features, names = frame.drop(columns=entry.target), entry.features.split()
    if names and features.shape[1] != len(names):
        raise InputError(
            f"{place}: expected {len(names)} features on OpenML, found {features.shape[1]}; put "
            f"{name}.csv in the folder that {DATA_VARIABLE} names"
        )
    if names and set(names) == set(features.columns):
        features = features[names]
    elif names:
        features = features.set_axis(names, axis="columns")
    positive = frame[entry.target].astype(str) == entry.positive
    source = f"OpenML {bunch.details['id']} ({entry.name} version {entry.version})"
    return Raw(features.assign(**{TARGET: positive.astype(int)}), name, source)


def _fetch(dataset: int | str, version: int | None, where: str) -> Any:
    from sklearn.datasets import fetch_openml

    by_id = isinstance(dataset, int)
    query: dict[str, Any] = (
        {"data_id": dataset} if by_id else {"name": dataset, "version": version or "active"}
    )
    label = f"OpenML {dataset}" + (f" version {version}" if version and not by_id else "")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a failed try; the last one raises
            return fetch_openml(**query, as_frame=True, parser="auto", n_retries=1)
    except OSError as error:  # no network, no such host, an HTTP error
        raise InputError(
            f"{where}: expected {label}, found no way to download it ({error}); connect to the "
            f"internet, or put the table in a folder and set {DATA_VARIABLE} to it"
        ) from error
    except ValueError as error:  # unknown, withdrawn, or not a table
        raise InputError(f"{where}: expected {label}, found: {error}") from error
