"""Optional dependencies: which extra of the package brings them, and the message without them.

A serial search of a data frame needs the core dependencies only. Other features raise an error
that says which ``pip install`` brings the package that they need.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from framework.errors import InputError

EXTRAS = {
    "ray": "ray",
    "mlflow": "mlflow",
    "optuna": "sweep",
    "torch": "gp",
    "matplotlib": "plots",
    "plotly": "plots",
    "highspy": "solvers",
    "cvxpy": "solvers",
    "pyscipopt": "scip",
    "lightgbm": "boosting",
    "xgboost": "xgboost",
    "catboost": "catboost",
    "pyarrow": "parquet",
    "pymoo": "pymoo",
    "shtab": "completion",
    "fastapi": "serve",
    "uvicorn": "serve",
    "h11": "serve",  # comes with uvicorn
    "skl2onnx": "onnx",
    "onnxruntime": "onnx",
}
"""The extra of ``pyproject.toml`` that brings each optional package."""

_NOT_IN_ALL = ("gp", "scip", "onnx", "xgboost", "catboost")


def installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    return find_spec(package) is not None


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    by_package = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            by_package[package] = version(package)
    return by_package


def absent(extra: str) -> InputError | None:
    """Return an error about a package of an extra that is not installed; None if all are."""
    for package in (package for package, name in EXTRAS.items() if name == extra):
        if not installed(package):
            return _sentence(package)
    return None


def needed(package: str) -> Any:
    """Import an optional package.

    Raises
    ------
    InputError
        It is not installed: the message says how to install it.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise missing(error) or error from error


def missing(error: ImportError) -> InputError | None:
    """Return what to tell the user about a failed import; None if no extra brings the package."""
    package = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or package not in EXTRAS or installed(package):
        return None
    return _sentence(package)


def _sentence(package: str) -> InputError:
    extra = EXTRAS[package]
    return InputError(
        f"expected the package {package}, found that it is not installed: pip install "
        f"'paretolab[{extra}]'" + ("" if extra in _NOT_IN_ALL else " (or 'paretolab[all]')")
    )
