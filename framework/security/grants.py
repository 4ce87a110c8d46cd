"""The memory of what the user granted: digests of trusted files, and sealed grants of runs.

``paretolab trust FILE`` stores the path and the digest of the file and of each configuration that
it names. Once one of them is changed or replaced, the file is no longer trusted. The directory of a
run records what the run was granted in ``allowed.json``, sealed with a secret key of the user for
this place alone. So nobody else can write a record that counts here, or put one into another
directory, where it would grant another configuration what the user never granted to that.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from framework.files import locked, write_whole
from framework.machine import user_folder
from framework.reading import digest_of, read_bytes
from framework.security.documents import parse_json
from framework.security.limits import CONFIG_BYTES

SEAL_FILE = "allowed.json"

_MOST = 10**6  # bytes of one of these files
_LEVELS = 5  # from the directory of an experiment to that of one of its runs

Grant = tuple[str, str]


def place() -> Path:
    """Return the path of the user's file of trusted files; raise OSError without a home."""
    folder = user_folder("XDG_CONFIG_HOME", ".config")
    if folder is None:
        raise OSError(errno.ENOENT, "no home of this user; set HOME", "~/.config")
    return folder / "paretolab" / "trusted.json"


def listed() -> dict[str, dict[str, str]]:
    """Return the trusted files by path: the digests of each and of the configurations it names."""
    files = _load().get("files")
    entries = files.items() if isinstance(files, dict) else ()
    return {file: digests for file, digests in entries if isinstance(digests, dict)}


def remember(files: Mapping[Path, Sequence[Path]]) -> None:
    """Trust the present content of files, each with the configurations that it names.

    Raises
    ------
    OSError
        One of them cannot be read, or the list of trusted files cannot be written.
    """
    digests = {
        _name(file): {_name(path): digest_of(path, CONFIG_BYTES) for path in (file, *named)}
        for file, named in files.items()
    }
    with _held():
        _save(listed() | digests)


def forget(path: Path) -> bool:
    """Stop trusting a file or the directory of a run; return whether it was trusted."""
    if path.is_dir():
        sealed = path / SEAL_FILE
        was = os.path.lexists(sealed)
        sealed.unlink(missing_ok=True)
        return was
    with _held():
        files = listed()
        was = files.pop(_name(path), None) is not None
        if was:
            _save(files)
    return was


def is_trusted(file: Path, named: Sequence[Path] = ()) -> bool:
    """Return whether a file and the configurations that it names are trusted and unchanged."""
    digests = listed().get(_name(file), {})
    paths = {_name(path): path for path in (file, *named)}
    if not paths.keys() <= digests.keys():
        return False  # without reading any that was never trusted
    with suppress(OSError, ValueError):
        return all(digests[name] == digest_of(path, CONFIG_BYTES) for name, path in paths.items())
    return False


def _name(path: Path) -> str:
    """Return the name of a file in the list; links are resolved in its folder, not in its name."""
    return str(path.parent.resolve() / path.name)


def of_run(folder: Path) -> list[Grant]:
    """Return the sealed grants of the run in a folder, and of the runs that the folder lies in."""
    folders = [folder.absolute(), *folder.absolute().parents][:_LEVELS]
    return [grant for place in folders for grant in _sealed(place)]


def seal(folder: Path, effects: Iterable[Grant]) -> None:
    """Add grants to those of the run in a folder; without new ones nothing is written.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    sealed = set(_sealed(folder))
    wanted = sorted(sealed.union(effects))
    if len(wanted) > len(sealed):
        content = {"effects": wanted, "seal": _seal_of(folder, wanted, _key(make=True))}
        write_whole(folder / SEAL_FILE, json.dumps(content, indent=1))


def _sealed(folder: Path) -> list[Grant]:
    file = folder / SEAL_FILE
    if not file.is_file():
        return []
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        content = parse_json(read_bytes(file, _MOST))
        effects = sorted((str(kind), str(target)) for kind, target in content["effects"])
        key = _key(make=False)
        if key and hmac.compare_digest(_seal_of(folder, effects, key), str(content["seal"])):
            return effects
    return []


def _seal_of(folder: Path, effects: Sequence[Grant], key: str) -> str:
    text = json.dumps([str(folder.resolve()), *map(list, effects)])
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def _key(*, make: bool) -> str:
    key = str(_load().get("key") or "")
    if key or not make:
        return key
    with _held():
        key = str(_load().get("key") or "")
        if not key:
            key = secrets.token_hex(32)
            _save(listed(), key)
    return key


def _held() -> Any:
    place().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return locked(place().with_suffix(".lock"))


def _load() -> dict[str, Any]:
    with suppress(OSError, ValueError):
        content = parse_json(read_bytes(place(), _MOST))
        return content if isinstance(content, dict) else {}
    return {}


def _save(files: Mapping[str, Mapping[str, str]], key: str | None = None) -> None:
    content = {
        "key": str(_load().get("key") or "") if key is None else key,
        "files": files,
    }
    file = place()
    before = os.umask(0o077)  # also for the temporary file that is written first
    try:
        write_whole(file, json.dumps(content, indent=1))
    finally:
        os.umask(before)
    file.chmod(0o600)
