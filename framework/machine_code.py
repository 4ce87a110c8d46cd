"""Where the machine code of kernels is kept, and which of it is loaded.

A kernel is compiled on its first call. Its machine code is looked for

1. in ``NUMBA_CACHE_DIR``, and nowhere else, if that is set;
2. in ``compiled``, beside this file, where ``scripts/kernels.py`` put it into a wheel, an image or
   an environment. A cache holds pickles, that is code: a file is read only if the manifest there
   lists its digest, and the manifest belongs to the package, as its sources do;
3. in ``__pycache__`` beside the source or, where that cannot be written, in the cache of the user.
   New machine code is written there, too, or nowhere if neither can be written.

No place depends on the working folder or on the files that are opened. Machine code is valid for
the content of sources, not for their dates: it carries a digest of the kernel's file and of all
that this file takes from others. Packages that are sent to a node lie in a new folder for each
session of Ray; their machine code is kept in the cache of the node's user, by their content.

If the processor has AVX2 and FMA, code is compiled for x86-64-v3 (processors since about 2013):
the machine code in a wheel then runs on all of these, and sums have the same bits on all of them.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from llvmlite import binding
from numba import config
from numba.core import event
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
)
from numba.core.dispatcher import Dispatcher

from framework.compiling import COMPILING
from framework.machine import cache_dir

SHIPPED = "PARETOLAB_SHIPPED"
"""Environment variable of a worker: a digest of the packages sent to it, and their names."""
FOLDER = Path(__file__).parent / "compiled"
MANIFEST = "manifest.json"
PROCESSOR = "x86-64-v3"
_HAS = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")

if config.CPU_NAME is None and platform.machine().lower() in ("x86_64", "amd64"):
    _features = binding.get_host_cpu_features()
    if all(_features.get(name) for name in _HAS):
        config.CPU_NAME, config.CPU_FEATURES = PROCESSOR, ""


@cache
def stamp(module: str) -> str:
    """Return a digest of a module's source and of what its kernels take from other modules."""
    names = vars(sys.modules[module])
    digest = sha256(Path(names["__file__"]).read_bytes())
    others = set()
    for name, value in sorted(names.items()):
        if isinstance(value, int | float | np.generic):
            digest.update(f"{name} = {value!r}\n".encode())
        elif isinstance(value, type) and hasattr(value, "_fields"):
            digest.update(f"{name}: {value._fields}\n".encode())
        elif isinstance(value, Dispatcher):
            others.add(value.py_func.__module__)
        elif isinstance(value, ModuleType) and any(
            isinstance(item, Dispatcher) for item in list(vars(value).values())
        ):
            others.add(value.__name__)
    for other in sorted(others - {module}):
        digest.update(stamp(other).encode())
    return digest.hexdigest()


@cache
def _listed() -> dict[str, str]:
    """Return the digests of the files of machine code in the manifest, by their names."""
    try:
        listed: dict[str, str] = json.loads((FOLDER / MANIFEST).read_text(encoding="utf-8"))
    except OSError:
        return {}
    return listed


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of each file of machine code below a folder, by its relative path."""
    files = sorted(path for path in folder.rglob("*.nb[ic]"))
    names = (path.relative_to(folder).as_posix() for path in files)
    return {
        name: sha256(path.read_bytes()).hexdigest() for name, path in zip(names, files, strict=True)
    }


class _Brought(IndexDataCacheFile):  # type: ignore[misc]  # Numba has no types
    """Machine code that came with the package."""

    def _load_index(self) -> Any:
        return super()._load_index() if self._is_listed(self._index_name) else {}

    def _load_data(self, name: str) -> Any:
        if not self._is_listed(name):
            raise OSError("not in the manifest")  # Numba then treats the file as missing
        return super()._load_data(name)

    def _is_listed(self, name: str) -> bool:
        path = Path(self._cache_path) / name
        expected = _listed().get(path.relative_to(FOLDER).as_posix())
        if expected is None or not path.is_file():
            return False
        return sha256(path.read_bytes()).hexdigest() == expected


class _Place:
    """Base of the places below: machine code is valid for the content of sources."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)  # type: ignore[call-arg]  # a base class of Numba
        self._module = function.__module__

    def get_source_stamp(self) -> str:
        return stamp(self._module)


class _Named(_Place, UserProvidedCacheLocator):  # type: ignore[misc]
    """In ``NUMBA_CACHE_DIR``, by module."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)
        self._cache_path = os.path.join(config.CACHE_DIR, self._module)


class _Travelled(_Place, InTreeCacheLocator):  # type: ignore[misc]
    """In the user's cache, for packages that were sent to a node."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)
        digest = os.environ[SHIPPED].split()[0]
        self._cache_path = os.path.join(str(cache_dir()), "kernels", digest, self._module)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Any:
        package = function.__module__.partition(".")[0]
        if cache_dir() is None or package not in os.environ.get(SHIPPED, "").split()[1:]:
            return None
        return super().from_function(function, file)  # None where the folder cannot be written


class _Beside(_Place, InTreeCacheLocator):  # type: ignore[misc]
    """In ``__pycache__``."""


class _OfUser(_Place, UserWideCacheLocator):  # type: ignore[misc]
    """In the user's cache."""


class _Nowhere(_Place, InTreeCacheLocator):  # type: ignore[misc]
    """For a package that can be written nowhere."""

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Any:
        return cls(function, file)


class _Storage(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Named, _Travelled, _Beside, _OfUser, _Nowhere)


class KernelCache(FunctionCache):  # type: ignore[misc]
    """The machine code of one kernel: see the docstring of the module."""

    _impl_class = _Storage

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        name, module = self._impl.filename_base, function.__module__
        self._brought = _Brought(str(FOLDER / module), name, stamp(module))

    def _load_overload(self, signature: Any, context: Any) -> Any:
        if not config.CACHE_DIR:
            data = self._brought.load(self._index_key(signature, context.codegen()))
            if data is not None:
                return self._impl.rebuild(context, data)
        with suppress(OSError):
            return super()._load_overload(signature, context)
        return None

    def save_overload(self, signature: Any, data: Any) -> None:
        """Write machine code; if its place cannot be written, the kernel is compiled each time."""
        with suppress(OSError):
            super().save_overload(signature, data)


class _Listener(event.Listener):  # type: ignore[misc]
    def on_start(self, event: Any) -> None:
        COMPILING.begin()

    def on_end(self, event: Any) -> None:
        COMPILING.end()


event.register("numba:compile", _Listener())
