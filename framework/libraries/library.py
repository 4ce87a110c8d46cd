"""Libraries: the predictions of a pool of fitted models and the costs of each, as one table.

Searches over sets of models read the table and never call a model.

On disk a library is a folder of open formats::

    library.json         names, classes, costs with units, configs, and the digest of each array
    validation.npy       float32 (K, N) or (K, N, C), read as a memory map
    y_validation.npy     int64 (N,) positions in the classes, or float64 values
    test.npy, y_test.npy the same for the test records, where there are some
    units.npy            int64 (N,), where several validation records are of one unit
    models/ID/           the fitted models, where there are some (framework.libraries.members)
    encoder.json         how records are encoded for them; example.csv has some records

No file is a pickle. ``library.json`` is written last, so a folder holds a complete library or none;
each file's digest and the fingerprint of the whole are checked when it is loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray, IntArray, frozen
from framework.errors import DAMAGED, InputError
from framework.files import room_in
from framework.libraries.checks import (
    check_every_class,
    checked_classes,
    checked_configs,
    checked_cost,
    checked_ids,
    checked_predictions,
    class_codes,
)
from framework.security import (
    ESTIMATOR_BYTES,
    TooManyBytes,
    check_no_links,
    digest_of,
    mapped,
    read_json,
    read_object,
)

ARRAYS = ("validation", "y_validation", "test", "y_test", "units")
FORMAT = 2
LIBRARY_FILE = "library.json"
BUILD_FILE = "build.json"
_AT_A_TIME = 1 << 20  # values of an array whose digest is computed
_OTHERS = ("encoder.json", "example.csv", "models/*/model.json", "models/*/model.skops")


class Cost(NamedTuple):
    """One kind of cost of each model in a library, such as memory.

    Attributes
    ----------
    values : numpy.ndarray of float64, shape (K,)
        Finite, at least 0.
    unit : str
        Unit of the values, such as ``ms/1000 rows`` or ``MB``.
    """

    values: FloatArray
    unit: str = ""


@dataclass(frozen=True, eq=False)
class Library:
    """Predictions of ``K`` models on ``N`` validation and ``M`` test records, read-only.

    Make one with :meth:`from_arrays` or :func:`load_library`, which check everything.

    Attributes
    ----------
    ids : tuple of str, length K
        Names of the models, each once.
    validation : numpy.ndarray of float32, shape (K, N) or (K, N, C)
        Binary: probability of the second class. Multiclass: of each class. Regression: values.
    y_validation : numpy.ndarray, shape (N,)
        Index of each record's class in ``classes`` (int64), or its value (float64).
    classes : tuple, length C, or None
        Labels in the order of the probabilities; None for regression.
    costs : mapping of str to Cost
        By name: ``inference_time``, ``memory``, ``disk``, or costs of the user's.
    test : numpy.ndarray of float32, shape (K, M) or (K, M, C), or None
    y_test : numpy.ndarray, shape (M,), or None
    configs : tuple of mapping, length K, or None
        Family and parameters of each model, for similarity and for reports.
    name : str
        What reports call it.
    fingerprint : str
        Hash of the whole content; libraries with equal fingerprints count as equal.
    folder : Path or None
        Its folder on disk; the fitted models, if it has some, are in ``models/ID``.
    units : numpy.ndarray of int64, shape (N,), or None
        Codes, from 0. Rows of the validation table with the same code are drawn together in a
        resample: copies of a record, or all records of a group. None: each row is drawn alone.
    folds : int
        Number of folds of the cross-validation whose out-of-fold predictions are the validation
        table; 0 for predictions of held-out records, or where it is not known.
    repeats : int
        How often the cross-validation was done: each record has so many rows.
    records : int
        Number of different validation records; fewer than rows with repeats or copies.
    models : mapping of str to fitted estimator, or None
        The fitted models, by id, where they are in memory.
    notes : tuple of str
        A sentence for each doubtful column of the data that it was built of, for the user.
    """

    ids: tuple[str, ...]
    validation: Array
    y_validation: Array
    classes: tuple[Any, ...] | None
    costs: Mapping[str, Cost]
    test: Array | None = None
    y_test: Array | None = None
    configs: tuple[Mapping[str, Any], ...] | None = None
    name: str = "library"
    fingerprint: str = ""
    folder: Path | None = None
    units: IntArray | None = None
    folds: int = 0
    repeats: int = 1
    records: int = 0
    models: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def title(self) -> str:
        """What messages call the library: by its name, or just library if it has none."""
        return self.name if self.name == "library" else f"library {self.name}"

    def first(self, count: int) -> Library:
        """Return the library of the first models alone; its folder stays that of all models.

        Raises
        ------
        InputError
            The library does not have so many models.
        """
        if not 1 <= count <= len(self):
            raise InputError(
                f"problem.models: expected 1 to {len(self)}, the models of the library "
                f"{self.name}, found {count}"
            )
        mark = hashlib.sha256(f"{self.fingerprint} {count}".encode()).hexdigest()
        return replace(
            self,
            ids=self.ids[:count],
            validation=self.validation[:count],
            costs={name: Cost(c.values[:count], c.unit) for name, c in self.costs.items()},
            test=None if self.test is None else self.test[:count],
            configs=None if self.configs is None else self.configs[:count],
            fingerprint=mark if self.fingerprint else "",
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Library) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled library, its arrays read-only again: pickling does not keep that."""
        arrays = {key: state[key] if state[key] is None else frozen(state[key]) for key in ARRAYS}
        costs = {key: Cost(frozen(values), unit) for key, (values, unit) in state["costs"].items()}
        self.__dict__.update({**state, **arrays, "costs": costs})

    @classmethod
    def from_arrays(
        cls,
        ids: Sequence[str],
        validation: Any,
        y_validation: Any,
        classes: Sequence[Any] | None,
        costs: Mapping[str, Cost | Any] | None = None,
        *,
        test: Any = None,
        y_test: Any = None,
        configs: Sequence[Mapping[str, Any]] | None = None,
        name: str = "library",
        normalise: bool = False,
        every_class: bool = True,
        units: Any = None,
    ) -> Library:
        """Return a checked library of arrays.

        Parameters
        ----------
        ids : sequence of str, length K
        validation : array_like, shape (K, N) or (K, N, C)
            Of two classes also (K, N, 2), of which the second column is kept.
        y_validation : array_like, shape (N,)
            Labels as ``classes`` spells them, or values.
        classes : sequence, length C, or None
            Labels in the order of the probabilities; None for regression.
        costs : mapping of str to Cost, or to values (K,); or a DataFrame of them, optional
            By name. Values are in the order of ``ids``, or by id in a mapping or a pandas Series.
        test, y_test : array_like, optional
            The same for test records; both or none. A class may be absent here.
        configs : sequence of mapping, length K, optional
            JSON values.
        normalise : bool
            Divide the probabilities of each record by their sum: for predictions that were
            kept in half precision.
        every_class : bool
            Whether a class without validation records is refused; a library that lacks one can
            be searched, but not loaded again.
        units : array_like of int, shape (N,), optional
            Any codes; rows with the same code are drawn together in a resample.

        Raises
        ------
        InputError
            Predictions that are not finite, not probabilities or do not add up to one; shapes
            that do not fit; a class without validation records; a cost that is missing, negative
            or of a model that is not in ``ids``; an id that comes twice.
        """
        ids = checked_ids(ids, "ids")
        labels = checked_classes(classes)
        if (test is None) != (y_test is None):
            raise InputError("test: expected predictions and labels, found only one of the two")
        codes = class_codes(y_validation, labels, "y_validation")
        codes_test = None if y_test is None else class_codes(y_test, labels, "y_test")
        if labels is not None and every_class:
            check_every_class(codes, labels)
        arrays = (validation, codes, test, codes_test, _unit_codes(units, len(codes)))
        return _checked(ids, arrays, labels, costs, configs, name, normalise=normalise)

    def save(self, folder: str | os.PathLike[str]) -> Library:
        """Write the library to a folder, completely or not at all; return it as read from there.

        The folder may hold other files, but no library yet. Fitted models and an encoder that are
        in it become part of the library.

        Raises
        ------
        InputError
            The folder holds a library, or cannot be written.
        """
        target = Path(folder).absolute()
        if (target / LIBRARY_FILE).exists():
            raise InputError(f"{target}: expected a folder without a library, found one in it")
        is_new = not target.exists()
        try:
            target.mkdir(parents=True, exist_ok=True)
            with room_in(target) as room:
                self._write(room, _digests_of(target))
                for file in (*ARRAYS, LIBRARY_FILE):  # the last one makes it a library
                    source = Path(room, file if file == LIBRARY_FILE else f"{file}.npy")
                    if source.exists():
                        os.replace(source, target / source.name)
        except OSError as error:
            if is_new:
                shutil.rmtree(target, ignore_errors=True)
            raise InputError(
                f"{target}: expected a place to write a library, found: {error.strerror or error}"
            ) from error
        return load_library(target)

    def _write(self, room: Path, files: Mapping[str, str]) -> None:
        for key in ARRAYS:
            array = getattr(self, key)
            if array is not None:
                np.save(room / f"{key}.npy", array, allow_pickle=False)
        about = {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            **_about(self),
            "files": dict(files),
        }
        text = json.dumps(about, indent=1, allow_nan=False, ensure_ascii=False)
        (room / LIBRARY_FILE).write_text(text + "\n", encoding="utf-8")


def load_library(folder: str | os.PathLike[str]) -> Library:
    """Open a library read-only, its predictions as memory maps; check it against its fingerprint.

    Every byte is read once, for digests and checks.

    Raises
    ------
    InputError
        There is no library, it has another format, or a file was changed since it was written.
    """
    path = Path(folder)
    check_no_links(path, "a library")
    plain = _description_of(path)
    try:
        _check_files(path, plain["files"])
        digests = dict(plain["arrays"])
        arrays: dict[str, Any] = {
            key: open_array(path / f"{key}.npy") if key in digests else None for key in ARRAYS
        }
        for key, array in arrays.items():
            if array is not None and _digest_of(array) != digests[key]:
                raise InputError(f"{key}.npy was changed since the library was written")
        costs = {key: Cost(cost["values"], cost["unit"]) for key, cost in plain["costs"].items()}
        classes = checked_classes(plain["classes"])
        codes = None if classes is None else tuple(range(len(classes)))
        for key in ("y_validation", "y_test"):
            if arrays[key] is not None:
                arrays[key] = class_codes(arrays[key], codes, key)
        arrays["units"] = _unit_codes(arrays["units"], len(arrays["y_validation"]))
        if classes is not None:
            check_every_class(arrays["y_validation"], classes)
        library = _checked(
            checked_ids(plain["ids"], "ids"),
            tuple(arrays.values()),
            classes,
            costs,
            plain["configs"],
            plain["name"],
        )
    except InputError as error:
        raise InputError(f"{path}: {error}; restore it or make the library again") from error
    except OSError as error:
        raise InputError(f"{path}: expected a library, found: {error.strerror or error}") from error
    except DAMAGED as error:
        raise InputError(
            f"{path / LIBRARY_FILE}: expected a library's description, found it damaged "
            f"({type(error).__name__}: {error}); restore it or make the library again"
        ) from error
    if library.fingerprint != plain.get("fingerprint"):
        raise InputError(
            f"{path}: {LIBRARY_FILE} was changed since the library was written; restore it or make "
            "the library again"
        )
    folds, repeats = _measured(path)
    records, place = library.records // repeats, path.absolute()
    return replace(library, folder=place, folds=folds, repeats=repeats, records=records)


def _checked(
    ids: tuple[str, ...],
    arrays: Sequence[Any],
    classes: tuple[Any, ...] | None,
    costs: Mapping[str, Any] | None,
    configs: Sequence[Mapping[str, Any]] | None,
    name: str,
    *,
    normalise: bool = False,
) -> Library:
    """Check predictions, costs and configs; ``arrays`` are in the order of ``ARRAYS``."""
    validation, y, test, y_test, units = arrays

    def predictions(key: str, values: Any, labels: Array) -> Array:
        return checked_predictions(
            values, ids, len(labels), classes, normalise=normalise, where=key
        )

    table = {}
    for key, cost in ({} if costs is None else costs).items():
        amounts, unit = cost if isinstance(cost, Cost) else (cost, "")
        table[key] = Cost(checked_cost(amounts, ids, key, "costs"), str(unit))
    library = Library(
        ids=ids,
        validation=predictions("validation", validation, y),
        y_validation=frozen(y),
        classes=classes,
        costs=table,
        test=None if test is None else predictions("test", test, y_test),
        y_test=None if y_test is None else frozen(y_test),
        configs=checked_configs(configs, len(ids)),
        name=name,
        units=units,
        records=len(y),
    )
    text = json.dumps(_about(library), sort_keys=True, allow_nan=False)
    object.__setattr__(library, "fingerprint", hashlib.sha256(text.encode()).hexdigest())
    return library


def _unit_codes(units: Any, records: int) -> IntArray | None:
    if units is None:
        return None
    codes = np.asarray(units)
    if codes.shape != (records,) or not np.issubdtype(codes.dtype, np.integer):
        raise InputError(
            f"units: expected a whole number for each of {records} validation records, found "
            f"{codes.dtype} of shape {codes.shape}"
        )
    return np.asarray(frozen(np.unique(codes, return_inverse=True)[1].ravel().astype(np.int64)))


def _measured(folder: Path) -> tuple[int, int]:
    """Return the folds and repeats of the build of a library; 0 and 1 where nothing says so."""
    try:
        build = read_object(folder / BUILD_FILE, "a build")["build"]
        folds, repeats = int(build["folds"]), int(build.get("repeats", 1))
        crossed = build["split"].get("validation") is None and folds > 1 and repeats > 0
    except (InputError, OSError, *DAMAGED):  # it was imported, say
        return 0, 1
    return (folds, repeats) if crossed else (0, 1)


def group_of(folder: Path) -> str | None:
    """Return the column that kept records of a library together; None where nothing says so."""
    try:
        group = read_object(folder / BUILD_FILE, "a build")["build"]["split"].get("group")
    except (InputError, OSError, *DAMAGED):
        return None
    return group if isinstance(group, str) else None


def _about(library: Library) -> dict[str, Any]:
    """Return the content of a library as JSON values, with the digests of its arrays."""
    arrays = {key: getattr(library, key) for key in ARRAYS}
    return {
        "name": library.name,
        "ids": list(library.ids),
        "classes": None if library.classes is None else list(library.classes),
        "costs": {
            name: {"unit": cost.unit, "values": cost.values.tolist()}
            for name, cost in library.costs.items()
        },
        "configs": None if library.configs is None else list(library.configs),
        "arrays": {key: _digest_of(array) for key, array in arrays.items() if array is not None},
    }


def _description_of(folder: Path) -> dict[str, Any]:
    """Return what ``library.json`` says; refuse another format."""
    path = folder / LIBRARY_FILE
    if not path.is_file():
        raise InputError(
            f"{folder}: expected a library's folder, found no {LIBRARY_FILE} in it; make one with "
            "`paretolab library build`"
        )
    plain = read_json(path, "a library's description")
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        stamp = plain.get("format") if isinstance(plain, dict) else plain
        raise InputError(
            f"{path}: expected a library of format {FORMAT}, found {stamp!r}; make it again with "
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
        return mapped(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(f"{path.name}: expected an array of numbers, found: {reason}") from error


def _digests_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a library except its arrays and ``library.json``."""
    paths = sorted(path for pattern in _OTHERS for path in folder.glob(pattern))
    try:
        return {
            path.relative_to(folder).as_posix(): digest_of(path, ESTIMATOR_BYTES) for path in paths
        }
    except TooManyBytes as error:
        raise InputError(
            f"expected files of at most {error.allowed:,} bytes, found more"
        ) from error


def _check_files(folder: Path, listed: Mapping[str, str]) -> None:
    """Refuse files other than the arrays that are missing, were changed or are not listed."""
    digests = _digests_of(folder)
    for name in sorted({*digests, *listed}):
        if name not in digests:
            raise InputError(f"{name} is missing")
        if digests[name] != listed.get(name):
            raise InputError(f"{name} was changed since the library was written")


def _digest_of(array: Array) -> str:
    """Return the SHA-256 over type, shape and values of an array, some values at a time."""
    digest = hashlib.sha256(f"{array.dtype.newbyteorder('<').str} {array.shape} ".encode())
    values = array.reshape(-1) if array.flags.c_contiguous else array.flat
    for start in range(0, array.size, _AT_A_TIME):
        piece = values[start : start + _AT_A_TIME]
        digest.update(piece.astype(array.dtype.newbyteorder("<")).data)
    return digest.hexdigest()
