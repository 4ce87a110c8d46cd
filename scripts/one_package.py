"""The build backend: setuptools, and a wheel that installs one package, ``paretolab``.

In the repository, ``framework``, ``algorithms`` and ``tracking`` are separate packages, so that
editors and type checkers can follow imports to the files. Installed under these names they would
hide packages of the same names of a user. In the wheel they are therefore below ``paretolab``, and
all names of their modules are rewritten: in imports, entry points, strings and docstrings. Editable
installs are not changed.

From a clone, wheels and source archives contain only files that git tracks: no runs, tables or
scratch files that somebody left in the folders. From an unpacked source archive, a wheel contains
the files of the archive.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
]

PACKAGE = "paretolab"
FOLDERS = ("framework", "algorithms", "tracking")
SOURCES = Path("paretolab.egg-info/SOURCES.txt")  # the list of files in a source archive

_NAMES = "|".join(FOLDERS)
_IMPORT = re.compile(rf"^([ \t]*(?:>>> |\.\.\. )?(?:from|import) )(?=(?:{_NAMES})[ .])", re.M)
_MODULE = re.compile(rf"(?<![\w./])(?=({_NAMES})\.([A-Za-z_]\w*))")


# There is no hook for the metadata of a wheel, so that pip reads them from the wheel itself.
def build_wheel(
    wheel_directory: str,
    config_settings: Any = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel with setuptools, its packages below one (PEP 517); return its file name."""
    ours = own_files()
    with TemporaryDirectory(prefix="paretolab-wheel-") as folder:
        name: str = build_meta.build_wheel(folder, config_settings)
        # the configurations are not part of a package in the repository
        listed = sorted(Path("configs").glob("**/*.yaml"))
        paths = [path for path in listed if ours is None or path.as_posix() in ours]
        more = {f"{PACKAGE}/{path.as_posix()}": path.read_bytes() for path in paths}
        _move_below_one_package(Path(folder) / name, Path(wheel_directory) / name, more, ours)
    return name


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """Build the source archive with setuptools, of files that git tracks; return its file name."""
    ours = own_files()
    with TemporaryDirectory(prefix="paretolab-sdist-") as folder:
        name: str = build_meta.build_sdist(folder, config_settings)
        _take_out(Path(folder) / name, Path(sdist_directory) / name, ours)
    return name


def own_files() -> frozenset[str] | None:
    """Return the files of this folder that are part of the package.

    They are those that git tracks or, in an unpacked source archive, those that it lists; None if
    there is neither.
    """
    if Path(".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True).stdout
        return frozenset(filter(None, listed.decode("utf-8").split("\0")))
    if Path("PKG-INFO").is_file() and SOURCES.is_file():
        return frozenset(SOURCES.read_text(encoding="utf-8").splitlines())
    return None


def _take_out(source: Path, target: Path, ours: frozenset[str] | None) -> None:
    """Write a source archive again, with only our files and those that setuptools has made."""
    made = ("PKG-INFO", "setup.cfg")
    with tarfile.open(source) as archive, tarfile.open(target, "w:gz") as rest:
        for member in archive.getmembers():
            place = member.name.partition("/")[2]
            of_setuptools = place in made or place.startswith("paretolab.egg-info/")
            if not member.isfile() or not (ours is None or of_setuptools or place in ours):
                continue
            with archive.extractfile(member) as file:  # type: ignore[union-attr]
                data = file.read()
            if place == SOURCES.as_posix() and ours is not None:
                lines = data.decode("utf-8").splitlines()
                data = "".join(f"{line}\n" for line in lines if line in ours).encode("utf-8")
                member.size = len(data)
            rest.addfile(member, io.BytesIO(data))


def rewritten(text: str, modules: Iterable[str]) -> str:
    """Return a text in which all names of our modules begin with the name of the one package.

    Parameters
    ----------
    text : str
        The source of a module, or the entry points.
    modules : iterable of str
        Dotted names of our packages and modules in the repository. Other dotted words, such as the
        key ``tracking.uri`` of a configuration, are not changed.
    """
    names = set(modules)

    def placed(match: re.Match[str]) -> str:
        return f"{PACKAGE}." if f"{match[1]}.{match[2]}" in names else ""

    text = _MODULE.sub(placed, text)
    # imports from a package itself, such as `from framework import registry`, are still left
    return _IMPORT.sub(rf"\1{PACKAGE}.", text)


def _move_below_one_package(
    source: Path,
    target: Path,
    more: Mapping[str, bytes],
    ours: frozenset[str] | None,
) -> None:
    """Write a wheel again, with its packages below one, names rewritten, and a new record.

    ``more`` has the contents of further files, by their places in the wheel.
    """
    with zipfile.ZipFile(source) as wheel:
        content = {
            info.filename: wheel.read(info)
            for info in wheel.infolist()
            if ours is None
            or ".dist-info/" in info.filename
            or not ours.isdisjoint({info.filename, f"algorithms/facade/{info.filename}"})
        }
    modules = {
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in content
        if path.endswith(".py")
    }
    record, metadata = "", dict[str, bytes]()
    for path in sorted(content):
        place = f"{PACKAGE}/{path}" if path.split("/")[0] in FOLDERS else path
        data = content[path]
        if path.endswith((".py", ".dist-info/entry_points.txt")):
            data = rewritten(data.decode("utf-8"), modules).encode("utf-8")
        elif path.endswith(".dist-info/top_level.txt"):
            data = f"{PACKAGE}\n".encode()
        if path.endswith(".dist-info/RECORD"):
            record = path
        else:
            metadata[place] = data
    _write_wheel(target, {**metadata, **more}, record)


def with_files(wheel: Path, more: Mapping[str, bytes]) -> None:
    """Add files to a wheel; ``more`` has their contents by their places in it."""
    with zipfile.ZipFile(wheel) as archive:
        content = {info.filename: archive.read(info) for info in archive.infolist()}
    record = next(place for place in content if place.endswith(".dist-info/RECORD"))
    del content[record]
    _write_wheel(wheel, {**content, **more}, record)


def _write_wheel(target: Path, content: Mapping[str, bytes], record: str) -> None:
    """Write a wheel with the contents of files by place, and their digests in ``record``."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        lines = []
        for place, data in content.items():
            wheel.writestr(_info(place), data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            lines.append(f"{place},sha256={digest.decode()},{len(data)}\n")
        wheel.writestr(_info(record), "".join([*lines, f"{record},,\n"]))


def _info(name: str) -> zipfile.ZipInfo:
    """Return the entry of a file; all have the same date, so that builds are reproducible."""
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info
