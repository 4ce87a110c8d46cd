"""Fitted classifiers as files: linear ones as plain numbers, calibrated ones as two files."""

from __future__ import annotations

from typing import Any

from framework.errors import InputError
from framework.models.calibration import CalibratedProbability, Calibration
from framework.models.files import ModelFiles
from framework.models.linear import LinearProbability
from framework.security import load_estimator

_ARRAY, _CALIBRATED, _SKOPS = ".npy", ".calibrated.json", ".skops"


def write_classifier(files: ModelFiles, stem: str, classifier: Any) -> str:
    """Write a classifier; return the name of its file, which begins with ``stem``.

    ``STEM.npy`` are the coefficients of a :class:`LinearProbability`, ``STEM.calibrated.json`` a
    calibration and the name of another file, ``STEM.skops`` any estimator that is trusted.

    Raises
    ------
    InputError
        It holds a type that is not trusted.
    """
    if isinstance(classifier, CalibratedProbability):
        base = write_classifier(files, stem, classifier.base)
        plain = {"base": base, "calibration": classifier.calibration.to_json()}
        files.write_json(stem + _CALIBRATED, plain)
        return stem + _CALIBRATED
    if isinstance(classifier, LinearProbability):
        files.write_array(stem + _ARRAY, classifier.to_array())
        return stem + _ARRAY
    files.write_estimator(stem + _SKOPS, classifier)
    return stem + _SKOPS


def read_classifier(files: ModelFiles, name: str, classes: Any) -> Any:
    """Return the classifier that :func:`write_classifier` wrote.

    Raises
    ------
    InputError
        It is damaged, was changed, holds types that are not trusted, or is no classifier.
    """
    if name.endswith(_ARRAY):
        return LinearProbability.from_array(classes, files.read_array(name))
    if name.endswith(_CALIBRATED):
        return _read_calibrated(files, name, classes)
    return load_classifier(files.read(name), name)


def _read_calibrated(files: ModelFiles, name: str, classes: Any) -> CalibratedProbability:
    plain = files.read_json(name)
    try:
        base, calibration = str(plain["base"]), Calibration.from_json(plain["calibration"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{name}: expected a calibrated classifier, found it damaged ({error})"
        ) from error
    if base.endswith(_CALIBRATED):
        raise InputError(f"{name}: expected another file with its classifier, found {base}")
    return CalibratedProbability(read_classifier(files, base, classes), calibration, classes)


def load_classifier(content: bytes, name: str) -> Any:
    """Load a classifier from skops's format.

    Parameters
    ----------
    content : bytes
    name : str
        What to call it in messages.

    Raises
    ------
    InputError
        It is damaged, holds types that are not trusted, or is no classifier.
    """
    classifier = load_estimator(content, name)
    if not hasattr(classifier, "predict_proba"):
        raise InputError(
            f"{name}: expected a classifier with predict_proba, found {type(classifier).__name__}"
        )
    return classifier
