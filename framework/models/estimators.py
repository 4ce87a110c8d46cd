"""Fitted estimators in skops's format: written and read without trusting who wrote them."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from importlib import import_module
from typing import Any

from framework.errors import InputError

LIGHTGBM = (
    "collections.OrderedDict",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "lightgbm.sklearn.LGBMRegressor",
)


def dump_estimator(estimator: Any, name: str, also: Collection[str] = ()) -> bytes:
    """Return a fitted estimator in skops's format.

    Parameters
    ----------
    estimator : estimator
    name : str
        What to call it in messages.
    also : collection of str
        Full names of classes that it may hold beyond scikit-learn's and LightGBM's.

    Raises
    ------
    InputError
        It holds a type that :func:`load_estimator` would refuse.
    """
    from skops import io

    content: bytes = io.dumps(estimator)
    trusted_types(content, name, also)
    return content


def load_estimator(content: bytes, name: str, also: Collection[str] = ()) -> Any:
    """Load an object from skops's format, trusting known classes and ``also`` alone.

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
        One of them is not trusted, or the content is damaged.
    """
    from skops import io

    try:
        types = io.get_untrusted_types(data=content)
    except Exception as error:  # a damaged file may fail anywhere in skops
        raise InputError(f"{name}: expected a model, found it damaged ({error})") from error
    for found in types:
        if found not in also and found not in LIGHTGBM and not _is_scikit_learn_class(found):
            raise InputError(
                f"{name}: expected types of scikit-learn and LightGBM alone, found {found}; such a "
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
