"""Sources of tables: a folder of files, OpenML, the data sets of scikit-learn, a generator."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from framework.data.assemble import Raw
from framework.data.files import PLAIN, TABLE_ENDINGS, FileOptions, read_frame
from framework.errors import InputError
from framework.registry import nearest

DATA_VARIABLE = "PARETOLAB_DATA"
TARGET = "target"

BuiltIn = Literal["breast_cancer", "diabetes", "digits", "iris", "wine"]


class _OnOpenML(NamedTuple):
    """A set on OpenML that a name stands for.

    ``features`` are the names to give, in the order to have: OpenML's own where they agree
    (whatever their order), else given by position; none keeps OpenML's names. The target becomes
    1 where it is ``positive``, else 0.
    """

    name: str
    version: int
    target: str
    positive: str
    features: tuple[str, ...] = ()


def _numbered(count: int, prefix: str = "f") -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(1, count + 1))


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
    "breast_w": _OnOpenML("breast-w", 1, "Class", "malignant", tuple(_BREAST_W.split())),
    "german": _OnOpenML("credit-g", 1, "class", "bad"),
    "heart_failure": _OnOpenML(
        "heart-failure", 1, "DEATH_EVENT", "1", tuple(_HEART_FAILURE.split())
    ),
    "heart_statlog": _OnOpenML(
        "heart-statlog", 1, "class", "present", tuple(_HEART_STATLOG.split())
    ),
    "hill_valley": _OnOpenML("hill-valley", 1, "Class", "1", _numbered(100)),
    "ionosphere": _OnOpenML("ionosphere", 1, "class", "b", _numbered(34)),
    "parkinsons": _OnOpenML("parkinsons", 1, "Class", "2"),
    "pima": _OnOpenML("diabetes", 1, "class", "tested_positive", tuple(_PIMA.split())),
    "qsar_biodeg": _OnOpenML("qsar-biodeg", 1, "Class", "2"),
    "sonar": _OnOpenML("sonar", 1, "Class", "Mine", _numbered(60)),
    "spambase": _OnOpenML("spambase", 1, "class", "1"),
    "vote": _OnOpenML("vote", 1, "Class", "republican"),
}


def known_names() -> list[str]:
    """Return the names of data sets: those in the data folder, and those known on OpenML."""
    names = {*_KNOWN, *_names_in(_data_folder())}
    # NAME_groups.csv says which subject each record of NAME.csv is of; it is no data set
    return sorted(name for name in names if name.removesuffix("_groups") not in names - {name})


def from_name(name: str, where: str, options: FileOptions = PLAIN) -> Raw:
    """Return a data set by its name: from the folder ``PARETOLAB_DATA``, otherwise from OpenML.

    Raises
    ------
    InputError
        The name is neither in the folder nor known, or the data set cannot be loaded.
    """
    folder = _data_folder()
    if folder is not None and not folder.is_dir():
        raise InputError(f"{DATA_VARIABLE}: expected a folder, found {str(folder)!r}")
    path = file_of(name)
    if path is not None:
        return Raw(read_frame(path, options), name, str(path))
    if name not in _KNOWN:
        known = known_names()
        raise InputError(
            f"{where}.name: expected one of {', '.join(known)}; found {name!r}"
            f"{nearest(name, known)} (other sets: put {name}.csv in the folder that "
            f"{DATA_VARIABLE} names, or use path, sklearn or openml)"
        )
    return _known_on_openml(name, where)


def file_of(name: str) -> Path | None:
    """Return the file of the folder ``PARETOLAB_DATA`` that a name stands for; None for none."""
    folder = _data_folder()
    for ending in TABLE_ENDINGS if folder is not None else ():
        path = Path(str(folder), name + ending)
        if path.is_file():
            return path
    return None


def from_path(path: Path, options: FileOptions = PLAIN) -> Raw:
    """Return the table in a file, or in a folder of Parquet files."""
    name = path.name
    for ending in TABLE_ENDINGS:
        name = name.removesuffix(ending)
    return Raw(read_frame(path, options), name, str(path))


def from_openml(dataset: int | str, version: int | None, where: str) -> Raw:
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


def from_sklearn(name: BuiltIn) -> Raw:
    """Return one of the data sets that are part of scikit-learn."""
    from sklearn import datasets

    loaders: dict[BuiltIn, Callable[..., Any]] = {
        "breast_cancer": datasets.load_breast_cancer,
        "diabetes": datasets.load_diabetes,
        "digits": datasets.load_digits,
        "iris": datasets.load_iris,
        "wine": datasets.load_wine,
    }
    bunch = loaders[name](as_frame=True)
    frame = bunch.frame.copy()
    if "target_names" in bunch:  # classes; diabetes has values
        frame[TARGET] = [bunch.target_names[code].item() for code in bunch.target]
    return Raw(frame, name, f"scikit-learn {name}")


def from_generator(where: str, **parameters: Any) -> Raw:
    """Return a data set of ``sklearn.datasets.make_classification`` with columns f1 to fn."""
    from sklearn.datasets import make_classification

    try:
        X, y = make_classification(**parameters)
    except ValueError as error:
        raise InputError(f"{where}.synthetic: {error}") from error
    frame = pd.DataFrame(X, columns=list(_numbered(X.shape[1])))
    frame[TARGET] = y
    seed = parameters["random_state"]
    return Raw(frame, f"synthetic{X.shape[1]}", f"make_classification with seed {seed}")


def _data_folder() -> Path | None:
    folder = os.environ.get(DATA_VARIABLE)
    return Path(folder).expanduser().resolve() if folder else None


def _names_in(folder: Path | None) -> list[str]:
    if folder is None or not folder.is_dir():
        return []
    return [
        path.name.removesuffix(ending)
        for path in folder.iterdir()
        for ending in TABLE_ENDINGS
        if path.name.endswith(ending) and not path.name.startswith(".")
    ]


def _known_on_openml(name: str, where: str) -> Raw:
    known = _KNOWN[name]
    bunch = _fetch(known.name, known.version, f"{where}.name {name}")
    frame = bunch.frame
    if known.target not in frame.columns:
        raise InputError(
            f"{where}.name: expected OpenML's {known.name} version {known.version} to have a "
            f"column {known.target!r}, found none; put {name}.csv in the folder that "
            f"{DATA_VARIABLE} names"
        )
    features = _renamed(frame.drop(columns=known.target), known, f"{where}.name {name}")
    positive = frame[known.target].astype(str) == known.positive
    source = f"OpenML {bunch.details['id']} ({known.name} version {known.version})"
    return Raw(features.assign(**{TARGET: positive.astype(int)}), name, source)


def _renamed(features: pd.DataFrame, known: _OnOpenML, where: str) -> pd.DataFrame:
    if not known.features:
        return features
    if features.shape[1] != len(known.features):
        raise InputError(
            f"{where}: expected {len(known.features)} features on OpenML, found "
            f"{features.shape[1]}; put {where.split()[-1]}.csv in the folder that "
            f"{DATA_VARIABLE} names"
        )
    if set(known.features) == set(features.columns):
        return features[list(known.features)]
    return features.set_axis(list(known.features), axis="columns")


def _fetch(dataset: int | str, version: int | None, where: str) -> Any:
    from sklearn.datasets import fetch_openml

    by_id = isinstance(dataset, int)
    query: dict[str, Any] = (
        {"data_id": dataset} if by_id else {"name": dataset, "version": version or "active"}
    )
    label = f"OpenML {dataset}" + (f" version {version}" if version and not by_id else "")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # it tells of each try; we tell of the end
            return fetch_openml(**query, as_frame=True, parser="auto", n_retries=1)
    except OSError as error:  # no network, no such host, an HTTP error
        raise InputError(
            f"{where}: expected {label}, found no way to download it ({error}); connect to the "
            f"internet, or put the table in a folder and set {DATA_VARIABLE} to it"
        ) from error
    except ValueError as error:  # unknown, withdrawn, or not a table
        raise InputError(f"{where}: expected {label}, found: {error}") from error
