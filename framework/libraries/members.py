"""The fitted models of a library on disk, and their predictions.

``models/ID/model.skops`` is the model; ``models/ID/model.json`` describes it and has its digest.
Models that :mod:`framework.libraries.build` trained take encoded records, and ``encoder.json``
beside ``library.json`` says how; imported models take raw records. Nothing is unpickled: see
:mod:`framework.security`.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from framework.arrays import Array, FloatArray
from framework.data.encoding import Encoder
from framework.data.table_files import FileOptions, read_frame
from framework.data.tables import json_columns
from framework.errors import DAMAGED, InputError
from framework.libraries.checks import plain_labels, probabilities_of, shaped
from framework.libraries.library import Cost, Library
from framework.security import (
    ESTIMATOR_BYTES,
    TooManyBytes,
    load_estimator,
    read_bytes,
    read_json,
    read_object,
)

MODELS = "models"
MODEL_FILE = "model.skops"
ABOUT_FILE = "model.json"
ENCODER_FILE = "encoder.json"
EXAMPLE_FILE = "example.csv"


def has_members(library: Library) -> bool:
    """Return whether the fitted models of a library are in memory or in its folder."""
    folder = library.folder
    return library.models is not None or (folder is not None and (folder / MODELS).is_dir())


def call_times(library: Library) -> FloatArray | None:
    """Return what a call adds to each model's inference time however few records it has, (K,).

    It is in the unit of ``inference_time``. ``models/ID/model.json`` of libraries that were built
    here has it; None where it is unknown.
    """
    if library.folder is None or "inference_time" not in library.costs:
        return None
    seconds = []
    try:
        for name in library.ids:
            about = read_object(library.folder / MODELS / name / ABOUT_FILE, "a model")
            seconds.append(float(about["costs"]["call_time"]))
    except (InputError, OSError, *DAMAGED):  # it was imported, say
        return None
    return np.clip(np.nan_to_num(seconds), 0.0, library.costs["inference_time"].values)


def write_member(place: Path, content: bytes, about: Mapping[str, Any]) -> None:
    """Write a fitted model, in skops's format, and its description, with its digest."""
    (place / MODEL_FILE).write_bytes(content)
    about = {**about, "sha256": hashlib.sha256(content).hexdigest()}
    (place / ABOUT_FILE).write_text(json.dumps(about, indent=1), encoding="utf-8")


def load_member(folder: Path, name: str) -> Any:
    """Return a fitted model of a library.

    Parameters
    ----------
    folder : pathlib.Path
        The library's.
    name : str
        Id of the model.

    Raises
    ------
    InputError
        The model is missing, was changed, or holds types that are not trusted.
    """
    place = folder / MODELS / name
    try:
        content = read_bytes(place / MODEL_FILE, ESTIMATOR_BYTES)
        digest = read_object(place / ABOUT_FILE, "what is known of a model")["sha256"]
    except (OSError, KeyError, TooManyBytes) as error:
        raise InputError(
            f"{place}: expected a fitted model of the library, found none that can be read "
            f"({error}); make the library again"
        ) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise InputError(
            f"{place / MODEL_FILE} was changed since the library was written; restore it or make "
            "the library again"
        )
    return load_estimator(content, f"{place / MODEL_FILE}")


def load_encoder(folder: Path) -> Encoder | None:
    """Return the encoder of a library's models; None where they take raw records.

    Raises
    ------
    InputError
        The description is damaged.
    """
    path = folder / ENCODER_FILE
    if not path.is_file():
        return None
    return Encoder.from_json(read_json(path, "an encoder"))


def as_taken(model: Any, records: Any) -> Any:
    """Return records as a model takes them: the columns that it names, otherwise an array.

    Parameters
    ----------
    model : fitted estimator
    records : ndarray or DataFrame (n, d)

    Raises
    ------
    KeyError
        A column that the model names is missing.
    """
    if not isinstance(records, pd.DataFrame):
        return records
    names = getattr(model, "feature_names_in_", None)
    return records.to_numpy() if names is None else records[list(names)]


def predictions(model: Any, records: Any, classes: Collection[Any] | None) -> Array:
    """Return what a library keeps of a model: probabilities in the order of ``classes``, or values.

    Parameters
    ----------
    model : fitted estimator
    records : ndarray or DataFrame (n, d)
    classes : collection or None
        None for regression.

    Returns
    -------
    float64 (n,) for two classes (of the second) and regression, else (n, C)

    Raises
    ------
    ValueError
        The model has other classes, or its predictions another number of rows or columns, or are
        no probabilities.
    """
    n = np.shape(records)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # models fitted on arrays that predict arrays
        if classes is None:
            return shaped(model.predict(records), (n,))
        ask = getattr(model, "complete_proba", model.predict_proba)  # of calls that may fail
        labels = plain_labels(model.classes_)
        answers = probabilities_of(ask(records), (n, len(labels)))
    if sorted(map(str, labels)) != sorted(map(str, classes)):
        raise ValueError(f"expected a model of the classes {list(classes)}, found {labels}")
    names = [str(label) for label in labels]
    answers = answers[:, [names.index(str(label)) for label in classes]]
    return answers[:, 1] if len(labels) == 2 else answers


class Members(NamedTuple):
    """Chosen models, ready to be deployed together.

    Attributes
    ----------
    models : dict of str to estimator
        Fitted, by id, in the order of the library.
    costs : dict of str to Cost
        Values of shape (chosen,).
    encoder : Encoder, optional
        What turns raw records into the columns that the models read.
    """

    models: dict[str, Any]
    costs: dict[str, Cost]
    encoder: Encoder | None


def load_members(library: Library, chosen: Sequence[int], costs: Sequence[str]) -> Members:
    """Return the fitted models at some positions, with what they cost.

    Raises
    ------
    InputError
        There are no fitted models, or one cannot be read.
    """
    folder, ids = library.folder, [library.ids[i] for i in chosen]
    priced = {
        name: Cost(np.asarray(library.costs[name].values)[chosen], library.costs[name].unit)
        for name in costs
    }
    if library.models is not None:
        return Members({name: library.models[name] for name in ids}, priced, None)
    if folder is None or not has_members(library):
        place = library.name if folder is None else folder
        raise InputError(
            f"library {place}: expected fitted models to export, found predictions alone; build "
            "the library with its models, or bring the fitted models instead of arrays"
        )
    return Members({i: load_member(folder, i) for i in ids}, priced, load_encoder(folder))


def example_records(library: Library) -> dict[str, list[Any]]:
    """Return some raw records, column by column, where the library's folder has some."""
    if library.folder is None or not (path := library.folder / EXAMPLE_FILE).is_file():
        return {}
    encoder = load_encoder(library.folder)
    texts = {} if encoder is None else encoder.texts
    return json_columns(read_frame(path, FileOptions(categories=texts)))


def named_models(models: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """Return models by name: a mapping, or a list of models or pairs of a name and a model.

    A model without a name is called ``model_0``, ``model_1`` ... by its position.

    Raises
    ------
    InputError
        It is neither a mapping nor a list, two models have the same name, or a tuple is no pair.
    """
    if isinstance(models, Mapping):
        pairs = list(models.items())
    elif isinstance(models, str) or not isinstance(models, Iterable):
        raise InputError(
            "models: expected a list of models, or a mapping of names to them, found "
            f"{type(models).__name__}"
        )
    else:
        pairs = [m if isinstance(m, tuple) else (f"model_{i}", m) for i, m in enumerate(models)]
    if any(len(pair) != 2 for pair in pairs):
        raise InputError("models: expected models, or pairs of a name and a model, found others")
    named = {str(name): model for name, model in pairs}
    if len(named) < len(pairs):
        raise InputError(f"models: expected different names, found {[name for name, _ in pairs]}")
    return named
