"""The folder of a library: its description, its arrays, and digests that tell what was changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from framework.arrays import Array
from framework.errors import InputError
from framework.plain_files import read_json

FORMAT = 2
LIBRARY_FILE = "library.json"
_OTHERS = ("encoder.json", "example.csv", "models/*/model.json", "models/*/model.skops")


def read_description(folder: Path) -> dict[str, Any]:
    """Return what ``library.json`` says.

    Raises
    ------
    InputError
        There is none, it is damaged, or it is of another format.
    """
    path = folder / LIBRARY_FILE
    if not path.is_file():
        raise InputError(
            f"{folder}: expected a library's folder, found no {LIBRARY_FILE} in it; make one with "
            "`paretolab library build`"
        )
    plain = read_json(path, "a library's description")
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        found = plain.get("format") if isinstance(plain, dict) else plain
        raise InputError(
            f"{path}: expected a library of format {FORMAT}, found {found!r}; make it again with "
            "this version of paretolab"
        )
    return plain


def open_array(path: Path) -> Array:
    """Open a ``.npy`` file as a memory map, read-only and without pickles.

    Raises
    ------
    InputError
        It is missing or damaged.
    """
    try:
        with path.open("rb") as file:
            if file.read(6) != np.lib.format.MAGIC_PREFIX:
                raise ValueError("no file in numpy's format")
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header may fail anywhere in numpy
        found = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(f"{path.name}: expected an array of numbers, found: {found}") from error
    return array


def digests_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a library but its arrays and ``library.json``."""
    found = sorted(path for pattern in _OTHERS for path in folder.glob(pattern))
    digests = {}
    for path in found:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        digests[path.relative_to(folder).as_posix()] = digest
    return digests


def check_files(folder: Path, listed: Mapping[str, str]) -> None:
    """Compare the files of a library but its arrays with the digests that are listed.

    Raises
    ------
    InputError
        One is missing, was changed, or is not listed.
    """
    found = digests_of(folder)
    for name in sorted({*found, *listed}):
        if name not in found:
            raise InputError(f"{name} is missing")
        if found[name] != listed.get(name):
            raise InputError(f"{name} was changed since the library was written")


def digest_of(array: Array) -> str:
    """Return the SHA-256 over type, shape and values of an array, a slice at a time."""
    digest = hashlib.sha256(f"{array.dtype.newbyteorder('<').str} {array.shape} ".encode())
    for part in array if array.ndim > 1 else [array]:
        digest.update(np.ascontiguousarray(part).astype(array.dtype.newbyteorder("<")).data)
    return digest.hexdigest()
