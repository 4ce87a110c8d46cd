"""Fitted estimators in skops's format: written and read without trusting who wrote them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from framework.errors import InputError
from framework.models.classifiers import trusted_types
from framework.models.fitted import check_fitted
from framework.models.native import Unsound
from framework.models.schema import checked


def dump_estimator(estimator: Any, name: str, also: Collection[str] = ()) -> bytes:
    """Return a fitted estimator in skops's format.

    Parameters
    ----------
    estimator : estimator
    name : str
        What to call it in messages.
    also : collection of str
        Full names of classes that it may hold beyond those of :mod:`framework.models.trusted`,
        those that the user trusts and those that are registered.

    Raises
    ------
    InputError
        It holds a type that :func:`load_estimator` would refuse.
    """
    from skops import io

    try:
        content: bytes = io.dumps(estimator)
    except Exception as error:  # skops says in many ways what it cannot write
        raise InputError(
            f"{name}: expected a model that can be written in skops's format, found "
            f"{type(estimator).__name__}, which cannot ({error})"
        ) from error
    try:
        checked(content, name, [*also, *trusted_types()])
        check_fitted(estimator)
    except Unsound as error:
        raise InputError(
            f"{name}: expected a model that can be loaded again, found {type(estimator).__name__} "
            f"with {error}, which is not"
        ) from error
    return content


def load_estimator(content: bytes, name: str, also: Collection[str] = ()) -> Any:
    """Load an estimator from skops's format.

    The whole file is checked before anything is made of it, and what is made of it before it is
    asked.

    Parameters
    ----------
    content : bytes
    name : str
        What to call it in messages.
    also : collection of str
        Further classes to trust, by their full names, as for :func:`dump_estimator`.

    Raises
    ------
    InputError
        It is damaged, or holds something that is not trusted.
    """
    from skops import io

    try:
        schema = checked(content, name, [*also, *trusted_types()])
        model = io.loads(schema.content, trusted=sorted(schema.types))
        check_fitted(model)
    except InputError:
        raise
    except Unsound as error:
        raise InputError(f"{name}: expected a model, found it damaged ({error})") from error
    except Exception as error:  # a damaged file may fail anywhere in skops
        raise InputError(
            f"{name}: expected a model, found it damaged ({type(error).__name__}: {error})"
        ) from error
    return model
