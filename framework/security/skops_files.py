"""Write and read fitted estimators in skops's format, without trusting who wrote the file.

A ``.skops`` file is a zip of arrays and of ``schema.json``: a tree of nodes, each of which names a
type and how to make an object of it. skops imports and calls what the nodes name, if it is trusted.
Here every node must be of a kind that makes plain data or an object of the fixed list in
:mod:`framework.security.allowed_types`; all others are refused. The file that is passed to skops is
written anew from the checked nodes, so that skops cannot read anything that was not checked.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from framework.errors import InputError, first_line
from framework.security import allowed_types, compiled
from framework.security.allowed_types import trusted_types
from framework.security.compiled import Unsound
from framework.security.compressed import (
    TooLarge,
    array_of,
    check_members,
    member,
    most_unpacked,
)
from framework.security.fitted import check_fitted
from framework.security.limits import CONFIG_TEXT, ESTIMATOR_BYTES, JSON_BYTES, JSON_DEPTH

Node = dict[str, Any]

_SCHEMA = "schema.json"
_FLOAT = "numpy.float64"
_VERSION = re.compile(r"[\w.+-]{1,40}", re.ASCII)
_ADVICE = {
    "sklearn.feature_selection._univariate_selection.": "it calls a function; take its choice of "
    "columns by ColumnTransformer, or RFE or SelectFromModel",
    "sklearn.model_selection._classification_threshold.TunedThresholdClassifierCV": "it calls a "
    "scorer; take FixedThresholdClassifier with the threshold it found",
    "sklearn.preprocessing._polynomial.SplineTransformer": "its splines hold a function",
    "sklearn.model_selection._search": "it calls a scorer; take its best_estimator_",
}


class Refused(Exception):
    """A file is not loaded; the message names what was found in it."""


class Schema:
    """The checked nodes of a file.

    Parameters
    ----------
    content : bytes
        Content of the file.
    also : collection of str
        Full names of classes to trust in addition to the fixed list.

    Attributes
    ----------
    types : set of str
        Full names of all types in it, all of them trusted.
    content : bytes
        The file written anew from the checked nodes.

    Raises
    ------
    Refused
        Something in it is not trusted, or it is damaged.
    """

    def __init__(self, content: bytes, also: Collection[str]) -> None:
        self.types: set[str] = set()
        self._also = frozenset(also)
        self._arrays: dict[str, bytes] = {}
        self._left = self._most = most_unpacked(len(content), ESTIMATOR_BYTES)
        with zipfile.ZipFile(BytesIO(content)) as self._zip:
            self._names = _checked_names(self._zip, len(content))
            root = _parsed(member(self._zip, _SCHEMA))
            _check_protocol(root)
            self._check(root, 0)
        self.content = self._written(root)

    def _written(self, root: Node) -> bytes:
        file = BytesIO()
        with zipfile.ZipFile(file, "w") as new:
            new.writestr(_SCHEMA, json.dumps(root))
            for name, array in self._arrays.items():
                new.writestr(name, array)
        return file.getvalue()

    def _check(self, node: Any, depth: int) -> None:
        if not isinstance(node, dict) or not isinstance(node.get("__loader__"), str):
            raise Refused("a node without a kind")
        if depth > JSON_DEPTH:
            raise Refused(f"more than {JSON_DEPTH} levels of nodes")
        node.pop("__id__", None)  # skops would take an earlier node of the same id in its place
        kind = node["__loader__"]
        if kind not in _KINDS:
            raise Refused(_refused(kind, _name(node)))
        allowed, check = _KINDS[kind]
        name = _name(node)
        if name not in allowed and not (kind == "ObjectNode" and name in self._also):
            raise Refused(_refused(kind, name))
        self.types.add(name)
        check(self, node, depth + 1)

    def _each(self, nodes: Any, depth: int) -> None:
        if not isinstance(nodes, list):
            raise Refused("a list that is none")
        for node in nodes:
            self._check(node, depth)

    def _json(self, node: Node, depth: int) -> None:
        plain(node)

    def _mapping(self, node: Node, depth: int) -> None:
        kinds, content = node["key_types"], node["content"]
        if not isinstance(content, dict) or kinds["__loader__"] != "ListNode":
            raise Refused("a mapping that is none")
        if any(kind["__loader__"] != "TypeNode" for kind in kinds["content"]):
            raise Refused("a mapping whose keys are made by more than a type")
        self._check(kinds, depth)
        self._each(list(content.values()), depth)

    def _list(self, node: Node, depth: int) -> None:
        self._each(node["content"], depth)

    def _slice(self, node: Node, depth: int) -> None:
        if any(value is not None and type(value) is not int for value in node["content"].values()):
            raise Refused("a slice of other than whole numbers")

    def _type(self, node: Node, depth: int) -> None:
        pass

    def _array(self, node: Node, depth: int) -> None:
        if node["type"] == "json":
            self._each(node["content"], depth)
            self._check(node["shape"], depth)
        else:
            self._array_of(node)
            self._count(node["file"])

    def _sparse(self, node: Node, depth: int) -> None:
        name = node["file"]
        if node["type"] != "scipy" or name not in self._names:
            raise Refused("a sparse array without its file")
        if name not in self._arrays:
            self._arrays[name] = compiled.rewritten_sparse(member(self._zip, name))
        self._count(name)

    def _count(self, name: str) -> None:
        """Count a file for each node that names it: each becomes an array of its own."""
        self._left -= len(self._arrays[name])
        if self._left < 0:
            raise Refused(str(TooLarge(self._most)))

    def _partial(self, node: Node, depth: int) -> None:
        """Accept the call of ``CHECK`` that boosting on histograms writes, and no other."""
        parts = node["content"]
        func = parts["func"]
        if (func["__loader__"], _name(func)) != ("FunctionNode", allowed_types.CHECK):
            raise Refused(f"a call of {_name(func)}")
        rest = [parts[key] for key in ("args", "kwds", "namespace")]
        self._each(rest, depth)
        if self.value(rest[0]) or self.value(rest[2]):
            raise Refused(f"a call of {_name(func)} with more than its options")
        options = dict(rest[1]["content"])
        dtypes, finite = options.pop("dtype"), options.pop("ensure_all_finite")
        if options or plain(finite) is not False or [*map(_name, dtypes["content"])] != [_FLOAT]:
            raise Refused(f"a call of {_name(func)} with other options")
        self.types.add(allowed_types.CHECK)

    def _dtype(self, node: Node, depth: int) -> None:
        self._check(node["content"], depth)
        if node["content"]["__loader__"] != "NdArrayNode":
            raise Refused("a dtype without its array")

    def _random_state(self, node: Node, depth: int) -> None:
        self._check(node["content"], depth)

    def _generator(self, node: Node, depth: int) -> None:
        state, seeds = node["content"]["bit_generator"], node["content"]["seed_seq"]
        self._each([state, seeds], depth)
        name = self.value(state["content"]["bit_generator"])  # skops calls numpy.random's NAME
        if name not in allowed_types.BIT_GENERATORS:
            raise Refused(f"the random numbers of {name}")
        self.types.add(f"numpy.random.{name}")

    def _default_dict(self, node: Node, depth: int) -> None:
        main, factory = node["content"]["main"], node["content"]["default_factory"]
        self._check(main, depth)
        self._check(factory, depth)
        if main["__loader__"] != "DictNode" or factory["__loader__"] not in (
            "TypeNode",
            "JsonNode",
        ):
            raise Refused("a mapping that makes what it lacks")

    def _loss(self, node: Node, depth: int) -> None:
        args = node["__reduce__"]["args"]
        self._check(node["content"], depth)
        self._check(args, depth)
        if not all(isinstance(value, int | float) for value in self.value(args)):
            raise Refused("a loss of other than numbers")
        if self.value(node["content"]):
            raise Refused("a loss with a state")

    def _tree(self, node: Node, depth: int) -> None:
        self._check(node["content"], depth)
        self._check(node["__reduce__"]["args"], depth)
        compiled.check_decision_tree(
            self.value(node["__reduce__"]["args"]), self.value(node["content"])
        )

    def _object(self, node: Node, depth: int) -> None:
        content, name = node["content"], _name(node)
        self._check(content, depth)
        version = content["content"].get("_sklearn_version") if _is_mapping(content) else None
        if version is not None and not _VERSION.fullmatch(str(self.value(version))):
            raise Refused(f"{name} of no version")  # a warning of scikit-learn would repeat it
        if name in allowed_types.SEARCH_TREES:
            compiled.check_search_tree([self._or_none(item) for item in content["content"]])
        elif name in allowed_types.DISTANCES:
            compiled.check_distance(self.value(content))
        elif name == allowed_types.IDENTITY:
            self._identity(content["content"])
        elif name == compiled.BOOSTER:
            compiled.check_booster(self.value(content["content"]["_handle"]))
        elif not _is_mapping(content) and self.value(content) is not None:
            raise Refused(f"{name} with a state of another kind")

    def _identity(self, options: Mapping[str, Node]) -> None:
        """Refuse a ``FunctionTransformer`` with a function other than ``CHECK``."""
        func = options["func"]
        options_used = [
            self.value(options[key]) for key in ("inverse_func", "kw_args", "inv_kw_args")
        ]
        if any(options_used) or (func["__loader__"] != "PartialNode" and plain(func) is not None):
            raise Refused(f"{allowed_types.IDENTITY} with a function")
        if self.value(options["feature_names_out"]) not in (None, "one-to-one"):
            raise Refused(f"{allowed_types.IDENTITY} with a function for names")

    def _or_none(self, node: Node) -> Any:
        return None if node["__loader__"] == "ObjectNode" else self.value(node)

    def value(self, node: Node) -> Any:
        """Return the plain value of a node that was checked.

        Raises
        ------
        Refused
            It is no plain value.
        """
        kind = node["__loader__"]
        if kind == "JsonNode":
            return plain(node)
        if kind in ("ListNode", "TupleNode"):
            return [self.value(item) for item in node["content"]]
        if kind == "DictNode":
            return {key: self.value(item) for key, item in node["content"].items()}
        if kind == "NdArrayNode" and node["type"] == "numpy":
            array = self._array_of(node)
            return array if node["__class__"] == "ndarray" else array[()]
        raise Refused(f"{_name(node)} where a plain value is expected")

    def _array_of(self, node: Node) -> Any:
        """Return the array of a node; arrays of objects are refused."""
        name = node["file"]
        if node["type"] != "numpy" or name not in self._names:
            raise Refused("an array without its file")
        if name not in self._arrays:
            self._arrays[name] = member(self._zip, name)
        array = array_of(self._arrays[name])
        # encoders make the text of each record as wide as the widest of their categories
        if array.dtype.kind in "US" and array.itemsize > 4 * CONFIG_TEXT:
            raise Refused(f"an array of texts of more than {CONFIG_TEXT:,} characters")
        return array


def plain(node: Node) -> Any:
    """Return the value of a ``JsonNode``."""
    return json.loads(node["content"])


@contextmanager
def _in_sentences(name: str) -> Iterator[None]:
    """Turn whatever a file raises into an InputError, but for Unsound."""
    try:
        yield
    except (InputError, Unsound):
        raise
    except Refused as error:
        raise InputError(
            f"{name}: expected types of scikit-learn and LightGBM that are known to be safe, found "
            f"{error}; such a model is neither written nor loaded"
        ) from error
    except Exception as error:  # a forged file may fail anywhere, also in skops
        raise InputError(
            f"{name}: expected a model, found it damaged ({type(error).__name__}: "
            f"{first_line(error)})"
        ) from error


def _refused(kind: str, name: str) -> str:
    """Return what a refused node is, with advice on what to use instead if there is any."""
    if kind in ("FunctionNode", "MethodNode", "OperatorFuncNode", "PartialNode"):
        return f"the function {name}, and no function is taken from a file"
    if kind == "TypeNode":
        return f"the type {name}"
    for module, advice in _ADVICE.items():
        if name.startswith(module):
            return f"{name} ({advice})"
    return name if kind in _KINDS else f"{name} ({kind})"


def _is_mapping(node: Node) -> bool:
    return bool(node["__loader__"] == "DictNode")


def _name(node: Node) -> str:
    return f"{node.get('__module__')}.{node.get('__class__')}"


def _checked_names(file: zipfile.ZipFile, packed: int) -> frozenset[str]:
    """Return the names of a zip's members, after checks of their sizes."""
    try:
        check_members(file, packed, ESTIMATOR_BYTES)
    except (TooLarge, zipfile.BadZipFile) as error:
        raise Refused(str(error)) from error
    if any(info.file_size > JSON_BYTES for info in file.infolist() if info.filename == _SCHEMA):
        raise Refused(f"a schema of more than {JSON_BYTES:,} bytes")
    return frozenset(file.namelist())


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise Refused("a schema of too many levels") from None


def _check_protocol(root: Any) -> None:
    from skops.io._protocol import PROTOCOL

    if not isinstance(root, dict) or type(root.get("protocol")) is not int:
        raise Refused("a schema without its protocol")
    if root["protocol"] != PROTOCOL:
        raise Refused(
            f"protocol {root['protocol']} where {PROTOCOL} is read: write it again with this "
            "version of skops"
        )


_Check = Callable[[Schema, Node, int], None]
_KINDS: dict[str, tuple[frozenset[str], _Check]] = {
    "DTypeNode": (frozenset({"numpy.dtype"}), Schema._dtype),
    "DefaultDictNode": (frozenset({"collections.defaultdict"}), Schema._default_dict),
    "DictNode": (allowed_types.MAPPINGS, Schema._mapping),
    "JsonNode": (frozenset({"builtins.str"}), Schema._json),
    "ListNode": (frozenset({"builtins.list"}), Schema._list),
    "LossNode": (allowed_types.LOSSES, Schema._loss),
    "NdArrayNode": (allowed_types.SCALARS | {"numpy.ndarray"}, Schema._array),
    "ObjectNode": (
        allowed_types.OBJECTS | allowed_types.SEARCH_TREES | allowed_types.DISTANCES,
        Schema._object,
    ),
    "PartialNode": (frozenset({"functools.partial"}), Schema._partial),
    "RandomGeneratorNode": (frozenset({"numpy.random._generator.Generator"}), Schema._generator),
    "RandomStateNode": (frozenset({"numpy.random.mtrand.RandomState"}), Schema._random_state),
    "SetNode": (frozenset({"builtins.set"}), Schema._list),
    "SliceNode": (frozenset({"builtins.slice"}), Schema._slice),
    "SparseMatrixNode": (allowed_types.SPARSE, Schema._sparse),
    "TreeNode": (frozenset({allowed_types.TREE}), Schema._tree),
    "TupleNode": (allowed_types.TUPLES, Schema._list),
    "TypeNode": (allowed_types.TYPES, Schema._type),
}


def dump_estimator(estimator: Any, name: str) -> bytes:
    """Return a fitted estimator in skops's format.

    Parameters
    ----------
    estimator : estimator
    name : str
        Name of the model in messages.

    Raises
    ------
    InputError
        skops cannot write it, or :func:`load_estimator` would refuse it.
    """
    from skops import io

    try:
        content: bytes = io.dumps(estimator)
    except Exception as error:  # skops has no common class of errors
        raise InputError(
            f"{name}: expected a model that can be written in skops's format, found "
            f"{type(estimator).__name__}, which cannot ({error})"
        ) from error
    try:
        with _in_sentences(name):
            Schema(content, trusted_types())
        check_fitted(estimator)
    except Unsound as error:
        raise InputError(
            f"{name}: expected a model that can be loaded again, found {type(estimator).__name__} "
            f"with {error}, which is not"
        ) from error
    return content


def load_estimator(content: bytes, name: str) -> Any:
    """Load an estimator from skops's format.

    The whole file is checked before any object is made from it, and the estimator before it is
    returned.

    Parameters
    ----------
    content : bytes
    name : str
        Name of the file in messages.

    Raises
    ------
    InputError
        The file is damaged, or holds something that is not trusted.
    """
    from skops import io

    try:
        with _in_sentences(name):
            schema = Schema(content, trusted_types())
            model = io.loads(schema.content, trusted=sorted(schema.types))
            check_fitted(model)
    except Unsound as error:
        raise InputError(f"{name}: expected a model, found it damaged ({error})") from error
    return model
