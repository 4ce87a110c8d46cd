"""What the user granted to files, remembered: one file of the user's own, and seals of runs.

``paretolab trust FILE`` notes what the file would do, by its digest and its place: the same
content anywhere is trusted, and so is the file that one goes on editing, as long as it does nothing
new. The directory of a run notes what the run was granted in ``allowed.json``, sealed with a key of
the user's: nobody else can write one that counts here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from framework.files import locked, write_whole
from framework.reading import read_bytes
from framework.security.documents import parse_json

SEAL_FILE = "allowed.json"
EVERY_FILE = "every file"

_MOST = 10**6  # bytes of such a file
_LEVELS = 5  # from the directory of an experiment to that of one of its runs

Grant = tuple[str, str]


class Trusted(NamedTuple):
    """A file that the user trusts: where it was, its digest, and what it may do."""

    file: str
    sha256: str
    effects: tuple[Grant, ...]


def place() -> Path:
    """Return the user's own file; it may be missing."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "paretolab" / "trusted.json"


def listed() -> list[Trusted]:
    """Return what the user trusts; nothing where that cannot be read."""
    found = _load().get("files")
    return [entry for entry in map(_entry, found if isinstance(found, list) else []) if entry]


def remember(file: Path | None, effects: Iterable[Grant]) -> None:
    """Trust a file to have such effects; every file where it is None.

    Raises
    ------
    OSError
        It cannot be written down.
    """
    name = EVERY_FILE if file is None else str(file.resolve())
    digest = "" if file is None else _digest(file)
    before = [entry for entry in listed() if entry.file == name] if file is None else []
    wanted = [*(effect for entry in before for effect in entry.effects), *effects]
    entry = Trusted(name, digest, tuple(dict.fromkeys(wanted)))
    with _held():
        _save([entry, *(other for other in listed() if other.file != name)])


def forget(name: str) -> bool:
    """Trust a file no longer, named as it is listed or by its path; return whether it was."""
    names = {name, str(Path(name).resolve())}
    with _held():
        known = listed()
        left = [entry for entry in known if entry.file not in names]
        if len(left) < len(known):
            _save(left)
    return len(left) < len(known)


def of_file(file: Path) -> list[Grant]:
    """Return what was granted to a file: by ``trust``, or by the seal of the run that it is of."""
    name = str(file.resolve())
    found: list[Grant] = []
    known = listed()
    digest = _digest(file) if any(entry.sha256 for entry in known) else ""
    for entry in known:
        if entry.file in (name, EVERY_FILE) or (digest and entry.sha256 == digest):
            found += entry.effects
    for folder in [file.absolute().parent, *file.absolute().parent.parents][:_LEVELS]:
        found += _sealed(folder)
    return found


def seal(folder: Path, effects: Sequence[Grant]) -> None:
    """Add to what the run in a folder was granted; nothing is written where there is nothing."""
    known = set(_sealed(folder))
    if known >= {*effects}:
        return
    with suppress(OSError):
        for name, text in sealed_text({*known, *effects}).items():
            write_whole(folder / name, text)


def sealed_text(effects: Iterable[Grant]) -> dict[str, str]:
    """Return the text of such a file by its name; nothing where there is nothing to note."""
    wanted = sorted(set(effects))
    if not wanted:
        return {}
    try:
        sealed = _seal_of(wanted, _key(make=True))
    except OSError:  # no place for a key: the user is asked again
        return {}
    content: dict[str, Any] = {"effects": [list(effect) for effect in wanted], "seal": sealed}
    return {SEAL_FILE: json.dumps(content, indent=1)}


def _sealed(folder: Path) -> list[Grant]:
    file = folder / SEAL_FILE
    if not file.is_file():
        return []
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        content = parse_json(read_bytes(file, _MOST))
        effects = sorted((str(kind), str(target)) for kind, target in content["effects"])
        key = _key(make=False)
        if key and hmac.compare_digest(_seal_of(effects, key), str(content["seal"])):
            return effects
    return []


def _seal_of(effects: Sequence[Grant], key: str) -> str:
    text = json.dumps([list(effect) for effect in effects])
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def _key(*, make: bool) -> str:
    known = str(_load().get("key") or "")
    if known or not make:
        return known
    with _held():
        known = str(_load().get("key") or "")
        if not known:
            known = secrets.token_hex(32)
            _save(listed(), known)
    return known


def _held() -> Any:
    place().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return locked(place().with_suffix(".lock"))


def _load() -> dict[str, Any]:
    with suppress(OSError, ValueError):
        content = parse_json(read_bytes(place(), _MOST))
        return content if isinstance(content, dict) else {}
    return {}


def _save(files: Sequence[Trusted], key: str | None = None) -> None:
    content = {
        "key": str(_load().get("key") or "") if key is None else key,
        "files": [entry._asdict() for entry in files],
    }
    file = place()
    before = os.umask(0o077)  # also of the part that is written first
    try:
        write_whole(file, json.dumps(content, indent=1))
    finally:
        os.umask(before)
    file.chmod(0o600)


def _entry(raw: Any) -> Trusted | None:
    with suppress(TypeError, ValueError, KeyError):
        effects = tuple((str(kind), str(target)) for kind, target in raw["effects"])
        return Trusted(str(raw["file"]), str(raw["sha256"]), effects)
    return None


def _digest(file: Path) -> str:
    """Return the SHA-256 of a file; of the configuration in a directory; nothing if unreadable."""
    with suppress(OSError, ValueError):
        return hashlib.sha256(read_bytes(file, 16 * _MOST)).hexdigest()
    return ""
