"""Models in a directory of open formats: JSON, .npy without pickles, .skops; and their README.

Loading executes nothing that the directory brings: models other than linear ones are .skops files
in which no type but scikit-learn's own classes is accepted (of members of an ensemble LightGBM's
too).
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.ensembling import model_store as voting_store
from algorithms.ensembling.model import WeightedEnsembleClassifier, WeightedEnsembleRegressor
from algorithms.multistage.model import MultiStageClassifier
from algorithms.multistage.routing import Walk
from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.models.calibration import CalibratedProbability, Calibration
from framework.models.card import write_card
from framework.models.linear import LinearProbability

FORMAT = 1
MODEL_FILE = "model.json"
KINDS = {"multistage": "multistage model", voting_store.KIND: "weighted ensemble"}

Model = MultiStageClassifier | WeightedEnsembleClassifier | WeightedEnsembleRegressor

_LIBRARIES = ("numpy", "pandas", "scikit-learn", "skops")


def save_model(
    model: Model,
    directory: str | os.PathLike[str],
    about: Mapping[str, Any] | None = None,
    walk: Walk | None = None,
) -> None:
    """Write a fitted model to a directory, whole or not at all.

    Parameters
    ----------
    model : MultiStageClassifier, WeightedEnsembleClassifier or WeightedEnsembleRegressor
    directory : path-like
        Made; a model that is there is replaced, anything else is left alone.
    about : mapping of JSON values, optional
        Where the model comes from and how good it is; shown in the README.
    walk : Walk, optional
        How records go through it; shown in the README.

    Raises
    ------
    InputError
        The directory holds something else or cannot be written; a classifier has no open format;
        ``about`` is not JSON.
    """
    target = Path(directory).absolute()
    _check_target(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        room = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise InputError(
            f"{target}: expected a place to write a model, found: {error.strerror}"
        ) from error
    try:
        (room / "new").mkdir()
        _write(model, room / "new", dict(about or {}), walk)
        _swap(room / "new", target, room / "old")
    finally:
        shutil.rmtree(room, ignore_errors=True)


def load_model(directory: str | os.PathLike[str]) -> Any:
    """Read a model that ``save_model`` wrote, of whatever kind, unpickling nothing.

    Raises
    ------
    InputError
        A file is missing or damaged, of a newer format, or holds types that are not trusted.
    """
    folder = Path(directory)
    plain = _read_json(folder / MODEL_FILE)
    try:
        if plain["kind"] == voting_store.KIND:
            return voting_store.read(plain, folder, _load_member)
        return _read_stages(plain, folder)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{folder / MODEL_FILE}: expected what save_model wrote, found it damaged "
            f"({type(error).__name__}: {error})"
        ) from error


def _read_stages(plain: Mapping[str, Any], folder: Path) -> MultiStageClassifier:
    classes = np.array(plain["classes"])
    parts = [_read_classifier(folder / _file_name(name), classes) for name in plain["classifiers"]]
    return MultiStageClassifier.from_fitted(
        Encoder.from_json(plain["encoder"]),
        plain["stages"],
        parts,
        classes,
        plain["costs"],
        dict(zip(plain["classes"], plain["thresholds"], strict=True)),
        plain["reject_label"],
    )


def _load_member(content: bytes, name: str) -> Any:
    return load_estimator(content, name, voting_store.TRUSTED)


def _check_member(content: bytes, name: str) -> None:
    trusted_types(content, name, voting_store.TRUSTED)


def _check_target(target: Path) -> None:
    if target.is_dir():
        if not any(target.iterdir()) or (target / MODEL_FILE).is_file():
            return
        found = "a directory with other files"
    elif target.exists() or target.is_symlink():
        found = "a file"
    else:
        return
    raise InputError(
        f"{target}: expected a new directory or one with a model, found {found}; choose another"
    )


def _swap(new: Path, target: Path, old: Path) -> None:
    """Put ``new`` in the place of ``target``, which goes to ``old`` and comes back on failure."""
    replaced = target.exists()
    if replaced:
        target.rename(old)
    try:
        new.rename(target)
    except OSError:
        if replaced:
            old.rename(target)
        raise


def _write(model: Model, folder: Path, about: dict[str, Any], walk: Walk | None) -> None:
    if isinstance(model, MultiStageClassifier):
        kind, content = "multistage", _write_stages(model, folder)
    else:
        kind, content = voting_store.KIND, voting_store.write(model, folder, _check_member)
    plain = {
        "format": FORMAT,
        "kind": kind,
        **content,
        "versions": {name: version(name) for name in _LIBRARIES},
        "about": about,
        "walk": walk.to_json() if walk is not None else None,
    }
    try:
        text = json.dumps(plain, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"about: expected JSON values, found others ({error})") from error
    (folder / MODEL_FILE).write_text(text + "\n", encoding="utf-8")
    write_card(model, folder / "README.md", about, walk)


def _write_stages(model: MultiStageClassifier, folder: Path) -> dict[str, Any]:
    names = [_write_classifier(c, j, folder) for j, c in enumerate(model.classifiers_)]
    return {
        "classes": model.classes_.tolist(),
        "reject_label": model.reject_label,
        "thresholds": model.thresholds_.tolist(),
        "costs": model.costs_.tolist(),
        "stages": [stage.tolist() for stage in model.stages_],
        "classifiers": names,
        "encoder": model.encoder_.to_json(),
    }


def _write_classifier(classifier: Any, stage: int, folder: Path) -> str:
    if isinstance(classifier, CalibratedProbability):
        base = _write_classifier(classifier.base, stage, folder)
        plain = {"base": base, "calibration": classifier.calibration.to_json()}
        name = f"stage_{stage}.calibrated.json"
        (folder / name).write_text(json.dumps(plain) + "\n", encoding="utf-8")
        return name
    if isinstance(classifier, LinearProbability):
        np.save(folder / f"stage_{stage}.npy", classifier.to_array(), allow_pickle=False)
        return f"stage_{stage}.npy"
    from skops import io

    name = f"stage_{stage}.skops"
    content = io.dumps(classifier)
    trusted_types(content, name)
    (folder / name).write_bytes(content)
    return name


def _read_json(path: Path) -> dict[str, Any]:
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: expected a model's file, found: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path}: expected JSON, found: {error}") from error
    found = plain.get("format") if isinstance(plain, dict) else None
    if found != FORMAT or plain.get("kind") not in KINDS:
        kind = KINDS.get(str(plain.get("kind")), "model") if isinstance(plain, dict) else "model"
        raise InputError(
            f"{path}: expected a {kind} of format {FORMAT}, found format {found!r}; "
            "save it again with this version of paretolab"
        )
    return dict(plain)


def _file_name(name: str) -> str:
    """Return a file's name as it is, refusing one that leads out of the directory."""
    if Path(name).name != name:
        raise InputError(f"{MODEL_FILE}: expected a file name for a classifier, found {name!r}")
    return name


def _read_classifier(path: Path, classes: Any) -> Any:
    if not path.is_file():
        raise InputError(f"{path.name}: expected a classifier's file, found none")
    if path.suffix == ".npy":
        return _read_linear(path, classes)
    if path.suffix == ".json":
        return _read_calibrated(path, classes)
    return load_classifier(path.read_bytes(), path.name)


def _read_calibrated(path: Path, classes: Any) -> CalibratedProbability:
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        base = path.with_name(_file_name(plain["base"]))
        calibration = Calibration.from_json(plain["calibration"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path.name}: expected a calibrated classifier, found it damaged ({error})"
        ) from error
    if base.suffix == path.suffix:
        raise InputError(f"{path.name}: expected another file with its classifier, found {base}")
    return CalibratedProbability(_read_classifier(base, classes), calibration, classes)


def _read_linear(path: Path, classes: Any) -> LinearProbability:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path.name}: expected an array, found it damaged ({error})") from error
    return LinearProbability.from_array(classes, array)


def load_classifier(content: bytes, name: str) -> Any:
    """Load a classifier from skops's format, trusting classes of scikit-learn alone.

    Parameters
    ----------
    content : bytes
    name : str
        What to call it in messages.

    Raises
    ------
    InputError
        It is damaged, holds other types, or is no classifier.
    """
    classifier = load_estimator(content, name)
    if not hasattr(classifier, "predict_proba"):
        raise InputError(
            f"{name}: expected a classifier with predict_proba, found {type(classifier).__name__}"
        )
    return classifier


def load_estimator(content: bytes, name: str, also: Collection[str] = ()) -> Any:
    """Load an object from skops's format, trusting classes of scikit-learn and ``also`` alone.

    Parameters
    ----------
    content : bytes
    name : str
        What to call it in messages.
    also : collection of str
        Further types to trust, by their full names.

    Raises
    ------
    InputError
        It is damaged, or holds other types.
    """
    from skops import io

    types = trusted_types(content, name, also)
    try:
        return io.loads(content, trusted=types)
    except Exception as error:  # a damaged file may fail anywhere in skops
        raise InputError(f"{name}: expected a model, found it damaged ({error})") from error


def trusted_types(content: bytes, name: str, also: Collection[str] = ()) -> list[str]:
    """Return the types in skops's format beyond those that skops trusts by itself.

    Raises
    ------
    InputError
        One of them is neither a class of scikit-learn nor in ``also``, or the content is damaged.
    """
    from skops import io

    try:
        types = io.get_untrusted_types(data=content)
    except Exception as error:  # a damaged file may fail anywhere in skops
        raise InputError(f"{name}: expected a model, found it damaged ({error})") from error
    for found in types:
        if found not in also and not _is_scikit_learn_class(found):
            others = " and those that are trusted" if also else ""
            raise InputError(
                f"{name}: expected no types but scikit-learn's{others}, found {found}; such a "
                "model cannot be loaded safely"
            )
    return list(types)


def _is_scikit_learn_class(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    if not name.startswith("sklearn."):
        return False
    try:
        return inspect.isclass(getattr(import_module(module), attribute))
    except (ImportError, AttributeError):
        return False
