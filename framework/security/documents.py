"""Read JSON and check YAML values that anyone may have written: bounded in size and depth."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from framework.errors import InputError, first_line
from framework.reading import TooManyBytes, read_text
from framework.security.limits import JSON_BYTES, JSON_DEPTH, SIZES, TREE_VALUES


def read_json(path: Path, what: str) -> Any:
    """Return the JSON value in a file.

    Parameters
    ----------
    path : pathlib.Path
    what : str
        What the file should be, for messages: ``a summary``.

    Raises
    ------
    InputError
        The file is missing, too large, nested too deep, or no JSON.
    """
    try:
        return parse_json(read_text(path, JSON_BYTES))
    except TooManyBytes as error:
        raise InputError(
            f"{path}: expected {what} of at most {error.allowed:,} bytes, found {error.found}"
        ) from error
    except OSError as error:
        raise InputError(
            f"{path}: expected {what}, found: {(error.strerror or str(error)).lower()}"
        ) from error
    except ValueError as error:
        raise InputError(f"{path}: expected {what} in JSON, found: {first_line(error)}") from error


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises
    ------
    ValueError
        The text is no JSON, is nested too deep, or has too many values.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"more than {JSON_DEPTH} levels of lists and mappings") from error
    check_tree(value)
    return value


def read_object(path: Path, what: str) -> dict[str, Any]:
    """Return the mapping in a JSON file; raises InputError as :func:`read_json` does."""
    value = read_json(path, what)
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected {what}, found {type(value).__name__} in it")
    return value


def check_tree(value: Any, most: int = TREE_VALUES) -> None:
    """Check that nested lists and mappings are not too deep and have at most ``most`` values.

    A list or mapping that stands in several places, by an alias of YAML, counts each time: a few
    lines of aliases can stand for millions of values.

    Raises
    ------
    ValueError
    """
    counts: dict[int, int] = {}

    def count(part: Any, depth: int) -> int:
        if not isinstance(part, Mapping | list):
            return 1
        if depth > JSON_DEPTH:
            raise ValueError(f"more than {JSON_DEPTH} levels of lists and mappings")
        if id(part) not in counts:
            inner = part.values() if isinstance(part, Mapping) else part
            counts[id(part)] = 1 + sum(count(item, depth + 1) for item in inner)
        if counts[id(part)] > most:
            raise ValueError(f"more than {most:,} values")
        return counts[id(part)]

    count(value, 0)


def check_sizes(value: Any, where: str) -> None:
    """Refuse sizes that no machine can handle, wherever they are in a configuration.

    Raises
    ------
    InputError
        One line for each size, with the largest that is allowed.
    """
    messages = [
        f"{where}: {'.'.join(path)}: expected at most {most:,}, found {size:,.16g}"
        for path, size, most in _sizes(value, (), None)
        if size > most
    ]
    if messages:
        raise InputError("\n".join(messages))


def _sizes(
    value: Any, path: tuple[str, ...], most: int | None
) -> Iterator[tuple[tuple[str, ...], float, int]]:
    """Yield the path, the value and the limit of each number that has a limit."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _sizes(item, (*path, str(key)), SIZES.get(str(key)))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _sizes(item, (*path, str(i)), most)
    elif isinstance(value, int | float) and not isinstance(value, bool) and most is not None:
        yield path, value, most
