"""The files of a saved model: written with their digests, and read only if these match."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from framework.arrays import Array
from framework.errors import InputError
from framework.security import (
    CONFIG_BYTES,
    ESTIMATOR_BYTES,
    TooManyBytes,
    array_of,
    dump_estimator,
    load_estimator,
    parse_json,
    read_bytes,
    read_text,
)

DIGESTS_FILE = "SHA256SUMS"

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


class ModelFiles:
    """The files of a model in its folder; names may contain ``/`` but never lead out of the folder.

    Parameters
    ----------
    folder : pathlib.Path
    digests : mapping of str to str, optional
        SHA-256 of each file that may be read, as :func:`read_digests` returns them.
    """

    def __init__(self, folder: Path, digests: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._digests = dict(digests or {})
        self._checked: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._digests

    def write(self, name: str, content: bytes) -> None:
        """Write a file.

        Raises
        ------
        InputError
            The name leads out of the folder, or was written before.
        """
        check_name(name)
        if name in self._digests:
            raise InputError(f"{name}: expected another name for a second file, found the same")
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self._digests[name] = hashlib.sha256(content).hexdigest()

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON value. Raises InputError for values that JSON does not have, such as NaN."""
        try:
            text = json.dumps(value, indent=1, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{name}: expected JSON values, found others ({error})") from error
        self.write(name, (text + "\n").encode())

    def write_array(self, name: str, array: Array) -> None:
        """Write an array in numpy's format. Raises InputError for an array of objects."""
        buffer = BytesIO()
        try:
            np.save(buffer, array, allow_pickle=False)
        except ValueError as error:
            raise InputError(f"{name}: expected an array of numbers, found: {error}") from error
        self.write(name, buffer.getvalue())

    def write_estimator(self, name: str, estimator: Any) -> None:
        """Write a fitted estimator in skops's format.

        Raises
        ------
        InputError
            It holds a type that :meth:`read_estimator` would refuse.
        """
        self.write(name, dump_estimator(estimator, name))

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises
        ------
        InputError
            It does not exist, is too large, was changed since the model was written, or was read
            before.
        """
        check_name(name)
        if name not in self._digests:
            raise InputError(f"{name}: expected one of the model's files, found none listed so")
        if name in self._checked:
            raise InputError(f"{name}: expected each file of the model once, found it named again")
        try:
            content = read_bytes(self.folder / name, ESTIMATOR_BYTES)
        except (OSError, TooManyBytes) as error:
            raise InputError(
                f"{name}: expected one of the model's files, found: "
                f"{getattr(error, 'strerror', None) or error}"
            ) from error
        if hashlib.sha256(content).hexdigest() != self._digests[name]:
            raise InputError(
                f"{name}: was changed since the model was written; restore it or export the model "
                "again"
            )
        self._checked.add(name)
        return content

    def read_json(self, name: str) -> Any:
        """Return a JSON value; raises InputError as :meth:`read`, or if the file is no JSON."""
        try:
            return parse_json(self.read(name))
        except ValueError as error:
            raise InputError(f"{name}: expected JSON, found: {error}") from error

    def read_array(self, name: str) -> Array:
        """Return an array; raises as :meth:`read`, or if it is damaged or holds objects."""
        content = self.read(name)
        try:
            return array_of(content)
        except ValueError as error:
            raise InputError(f"{name}: expected an array, found it damaged ({error})") from error

    def read_estimator(self, name: str) -> Any:
        """Return an estimator; raises as :meth:`read` and :func:`load_estimator`."""
        return load_estimator(self.read(name), name)

    def check_rest(self) -> None:
        """Check the digests of the files that were not read. Raises as :meth:`read`."""
        for name in sorted(set(self._digests) - self._checked):
            self.read(name)

    def write_digests(self) -> None:
        """Write the digests of all files to ``SHA256SUMS``, in the format of ``sha256sum``."""
        lines = [f"{digest}  {name}\n" for name, digest in sorted(self._digests.items())]
        (self.folder / DIGESTS_FILE).write_text("".join(lines), encoding="utf-8")


class SubFolder(ModelFiles):
    """The files of a model that is part of another model, in a subfolder of its files."""

    def __init__(self, files: ModelFiles, prefix: str) -> None:
        self.files, self.prefix = files, prefix

    def __contains__(self, name: str) -> bool:
        return f"{self.prefix}/{name}" in self.files

    def write(self, name: str, content: bytes) -> None:
        self.files.write(f"{self.prefix}/{name}", content)

    def read(self, name: str) -> bytes:
        return self.files.read(f"{self.prefix}/{name}")


def check_name(name: object) -> None:
    """Refuse a name that is not a relative path of plain names separated by ``/``."""
    plain = isinstance(name, str) and name.isprintable() and "\\" not in name
    parts = PurePosixPath(str(name)).parts
    if not (plain and parts) or "/".join(parts) != name or any(part[0] in "./" for part in parts):
        raise InputError(f"expected a file name within the model's directory, found {name!r}")


def read_digests(folder: Path) -> dict[str, str]:
    """Return the digests of the files in a folder from ``SHA256SUMS``, by name.

    Raises
    ------
    InputError
        The file is missing or damaged.
    """
    path = folder / DIGESTS_FILE
    try:
        lines = read_text(path, CONFIG_BYTES).splitlines()
    except (OSError, UnicodeDecodeError, TooManyBytes) as error:
        raise InputError(
            f"{path}: expected the digests of the model's files, found: "
            f"{getattr(error, 'strerror', None) or error}"
        ) from error
    digests: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if match is None or match[2] in digests:
            raise InputError(f"{path}, line {number}: expected a digest and a name, found {line!r}")
        check_name(match[2])
        digests[match[2]] = match[1]
    return digests
