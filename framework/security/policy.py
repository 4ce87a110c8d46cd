"""What a received file may do: every effect of it is noted, and decided here alone.

An effect is to connect to a host, to read a variable of the environment, to read or write outside
the file's folder, or to have workers install and run what a file names. Sections of a configuration
note their effects (:mod:`framework.effects`) as they are checked; whoever reads a file does so
within :func:`received`, which refuses at the end what nobody granted. So nothing is connected to,
read or written before all of it is decided. Outside of :func:`received` nothing is asked: what a
user writes in Python is the user's own.

Free is what stays at home: the file's folder and below but for what is hidden there, the cache and
the folder of data sets, a SQLite store in the working folder, this machine's loopback without
variables. Granted is what the user types, what ``PARETOLAB_ALLOW`` and ``MLFLOW_TRACKING_URI`` of
the user's environment name, what a file does that is as it was when the user trusted it, and what a
run was granted when it began (:mod:`~framework.security.grants`). What workers run is granted for
one command alone: no digest covers the code that a section ``cluster`` names.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framework.effects import KINDS, NOTED, Effect, note
from framework.errors import InputError
from framework.machine import cache_dir, child_environment
from framework.security import grants
from framework.security.escaping import terminal_text
from framework.security.uris import TRACKING, address_of, is_loopback, public_uri

ALLOW_VARIABLE = "PARETOLAB_ALLOW"
CLUSTER_VARIABLE = "PARETOLAB_TRUST_CLUSTER"
DATA_VARIABLE = "PARETOLAB_DATA"
NO_CREDENTIALS = "PARETOLAB_NO_CREDENTIALS"
"""Set where MLflow's file of passwords in the user's home is not for the server."""

_TOKENS = (  # what MLflow sends to whatever server it is told of
    "MLFLOW_TRACKING_TOKEN",
    "MLFLOW_TRACKING_USERNAME",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_AUTH",
    "MLFLOW_TRACKING_AWS_SIGV4",
    "MLFLOW_TRACKING_CLIENT_CERT_PATH",
    "DATABRICKS_TOKEN",
    "DATABRICKS_CLIENT_SECRET",
    "DATABRICKS_PASSWORD",
)
_FILES_ASIDE = {  # where else the user's passwords are taken from, for whatever server
    "NETRC": os.devnull,
    NO_CREDENTIALS: "1",
}
_OBEYED = {".numba_config.yaml": "Numba", "matplotlibrc": "Matplotlib"}
_SAID = {
    "host": "connects to {}",
    "variable": "sends the variable {} of your environment",
    "read": "reads {}",
    "write": "writes {}",
    "options": "connects with the options of {}",
    "cluster": "has workers run or install what its section cluster names ({})",
}


def text_of(effect: Effect) -> str:
    """Return what an effect is, for a sentence."""
    shown = effect.text if effect.kind == "cluster" else effect.target
    return _SAID[effect.kind].format(terminal_text(shown))


@dataclass
class Received:
    """A file that is being read, and what it was found to do.

    Attributes
    ----------
    file : pathlib.Path
        Or the directory of a run, which no digest is kept of.
    typed : sequence of str
        Keys whose values the user typed.
    effects : list of Effect
    raw : mapping
        Its content, to say at which key an effect stands.
    asks : bool
        Whether :func:`ask_now` refuses files that it names; not while the user trusts it.
    named : list of pathlib.Path
        The configurations that it names, whose content counts as its own.
    """

    file: Path
    typed: Sequence[str] = ()
    effects: list[Effect] = field(default_factory=list)
    raw: Mapping[str, Any] = field(default_factory=dict)
    asks: bool = True
    named: list[Path] = field(default_factory=list)

    def key_of(self, effect: Effect) -> str:
        """Return the whole key at which an effect stands; its last part where that is not found."""
        return next(iter(self._keys_of(effect)), effect.key)

    def _keys_of(self, effect: Effect) -> list[str]:
        """Return the keys at which an effect may stand: those of its name, with its value if any.

        Names of files are given as :class:`~pathlib.Path` writes them.
        """
        named = {
            key: str(value)
            for key, value in _flat(self.raw)
            if key.rpartition(".")[2] == effect.key or f".{effect.key}." in f".{key}."
        }
        alike = [key for key, v in named.items() if effect.text in (v, str(Path(v)))]
        return alike or list(named)

    def is_granted(self, effect: Effect) -> bool:
        """Return whether the user granted it by itself, not by trusting the file.

        What stands at several keys was typed where each of them was: a file could repeat a name.
        """
        keys = self._keys_of(effect) or [effect.key]
        typed = all(any(k == n or k.startswith(f"{n}.") for n in self.typed) for k in keys)
        if effect.kind == "cluster":
            return typed or is_cluster_trusted()
        return typed or _is_among(effect, [*_session(), *grants.of_run(_folder_of(self.file))])

    def is_free(self, effect: Effect) -> bool:
        """Return whether it needs no grant."""
        return _is_free(effect, self.file)

    def missing(self) -> list[Effect]:
        """Return the effects that are neither free nor granted."""
        asked = [e for e in self.distinct() if not self.is_free(e) and not self.is_granted(e)]
        if asked and grants.is_trusted(self.file, self.named):
            return [effect for effect in asked if effect.kind == "cluster"]
        return asked

    def distinct(self) -> list[Effect]:
        """Return the effects, each once."""
        seen: dict[tuple[str, str], Effect] = {}
        for effect in self.effects:
            seen.setdefault(effect[:2], effect)
        return list(seen.values())

    def refusal(self, effect: Effect) -> str:
        """Return the sentence that refuses an effect."""
        return (
            f"{self.file}: {terminal_text(self.key_of(effect))}: {text_of(effect)}, which you have "
            "not granted; look at the file, then say `paretolab trust "
            f"{shlex.quote(str(self.file))}` once, or add {effect.grant}"
        )


_READING: ContextVar[Received | None] = ContextVar("reading", default=None)
_ADMITTED: ContextVar[tuple[grants.Grant, ...]] = ContextVar("admitted", default=())


def note_address(uri: str, key: str, kinds: frozenset[str]) -> str:
    """Note what connecting to an address does; return the address.

    Raises
    ------
    ValueError
        It is not one of such kinds.
    """
    address = address_of(uri, kinds)
    if address.file:
        place = Path(address.file)
        note("write", str(place.absolute()), key, uri, here=True)
    else:
        note("host", address.host, key, uri)
    for name in address.variables:
        note("variable", name, key, uri)
    if address.options:
        note("options", public_uri(uri), key, uri)
    return uri


@contextmanager
def received(
    file: Path,
    typed: Sequence[str] = (),
    raw: Mapping[str, Any] | None = None,
    *,
    decide: bool = True,
    asks: bool = True,
) -> Iterator[Received]:
    """Note what a file does while its content is checked, and decide at the end.

    Within another :func:`received` the effects are noted there, and decided there.

    Parameters
    ----------
    file : pathlib.Path
        Or the directory of a run.
    typed : sequence of str
        Keys whose values the user typed: assignments ``key=value`` or keys.
    raw : mapping, optional
        The content of the file.
    decide : bool
        Whether what is not granted is refused.
    asks : bool
        Whether files that it names are refused, too, before they are read to check the rest.

    Raises
    ------
    InputError
        It does what is neither free nor granted; one line for each effect.
    """
    outer = _READING.get()
    if outer is not None:
        yield outer
        return
    keys = [text.partition("=")[0] for text in typed]
    reading = Received(Path(file), keys, raw=raw or {}, asks=asks)
    tokens = _READING.set(reading), NOTED.set(reading.effects)
    try:
        yield reading
    finally:
        _READING.reset(tokens[0])
        NOTED.reset(tokens[1])
    if decide:
        admit(reading)


def note_configuration(path: Path, key: str, text: str) -> None:
    """Note that a file names another configuration, and decide on what was noted so far.

    Raises
    ------
    InputError
    """
    note("read", str(path.absolute()), key, text, here=True)
    reading = _READING.get()
    if reading is not None:
        reading.named.append(path)
    ask_now()


def ask_now() -> None:
    """Decide on what was noted so far, before a file that is named is read to check the rest.

    Raises
    ------
    InputError
    """
    reading = _READING.get()
    if reading is not None and reading.asks:
        refused = [effect for effect in reading.missing() if effect.kind == "read"]
        if refused:
            raise InputError("\n".join(map(reading.refusal, refused)))


def admit(reading: Received) -> None:
    """Refuse what a file does and nobody granted; remember for this command what it may do.

    Raises
    ------
    InputError
    """
    missing = reading.missing()
    refused = [effect for effect in missing if effect.kind != "cluster"]  # asked where Ray starts
    if refused:
        raise InputError("\n".join(map(reading.refusal, refused)))
    may = [effect for effect in reading.distinct() if effect not in missing]
    if any(effect.kind == "cluster" for effect in may):
        trust_cluster()
    _ADMITTED.set(tuple(dict.fromkeys([*_ADMITTED.get(), *_remembered(reading, may)])))


def _remembered(reading: Received, may: Sequence[Effect]) -> list[grants.Grant]:
    """Return, of what a file may do, what a run of it may go on doing.

    This machine's own hosts need no grant, but tokens go to those alone that were named.
    """
    return [
        effect[:2]
        for effect in may
        if effect.kind != "cluster"
        and (effect.kind != "host" or not reading.is_free(effect) or reading.is_granted(effect))
    ]


def trust_files(files: Sequence[Received]) -> None:
    """Let files do what they were found to do, until they change, and runs from now on.

    Raises
    ------
    OSError
        It cannot be written down.
    """
    grants.remember({one.file: one.named for one in files if not one.file.is_dir()})
    for one in files:
        if one.file.is_dir():
            grants.seal(one.file, _remembered(one, one.distinct()))


@contextmanager
def from_program(file: Path) -> Iterator[None]:
    """Let the run that a program of the user's makes of a configuration read its files again.

    What is checked within is the user's own, which nobody is asked about; ``file`` is where it will
    be written. Its hosts are not named by that, and no worker is trusted.
    """
    with received(file, decide=False, asks=False) as program:
        yield
    files = [effect[:2] for effect in program.distinct() if effect.kind in ("read", "write")]
    _ADMITTED.set(tuple(dict.fromkeys([*_ADMITTED.get(), *files])))


@contextmanager
def allowing(options: Sequence[str]) -> Iterator[None]:
    """Grant what the options ``--allow KIND=TARGET`` say, for one command and what it starts.

    Raises
    ------
    InputError
        One of them is none.
    """
    names = (ALLOW_VARIABLE, CLUSTER_VARIABLE)
    before, token = {name: os.environ.get(name) for name in names}, _ADMITTED.set(())
    grants_text = [";".join(f"{kind}={target}" for kind, target in map(parse_grant, options))]
    try:
        if options:
            os.environ[ALLOW_VARIABLE] = ";".join([*grants_text, before[ALLOW_VARIABLE] or ""])
        yield
    finally:
        _ADMITTED.reset(token)
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ |= {} if value is None else {name: value}


def parse_grant(text: str) -> tuple[str, str]:
    """Return kind and target of ``KIND=TARGET``; paths made absolute.

    Raises
    ------
    InputError
    """
    kind, equals, target = text.partition("=")
    if kind not in KINDS[:-1] or not equals or not target or ";" in target:
        raise InputError(
            f"--allow: expected KIND=TARGET such as host=mlflow.example.org, with one of "
            f"{', '.join(KINDS[:-1])} as the kind, found {text!r}"
        )
    if kind in ("read", "write"):
        target = str(Path(target).expanduser().resolve())
    return kind, target


def keep(folder: Path, more: Sequence[grants.Grant] = ()) -> None:
    """Note in the directory of a run what the run was granted, so that it can be gone on with."""
    with suppress(OSError):  # no place for it: the user is asked again
        grants.seal(folder, [*_ADMITTED.get(), *more])


def check_address(uri: str, folder: Path, key: str, *, typed: bool = False) -> None:
    """Decide whether an address that stands in a file of a run's directory may be connected to.

    Raises
    ------
    InputError
    """
    with received(folder, [key] if typed else ()):
        try:
            note_address(uri, key, TRACKING)
        except ValueError as error:
            raise InputError(f"{folder}: {key}: {error}") from error


def is_allowed(kind: str, target: str) -> bool:
    """Return whether the user granted an effect by an option, or in the environment."""
    return _is_among(Effect(kind, target), _session())


def check_working_folder() -> None:
    """Refuse settings of libraries in the working folder, which someone may have sent.

    Numba and Matplotlib take theirs from there before any other. They name folders whose code is
    loaded, and have programs started.

    Raises
    ------
    InputError
    """
    for name, library in _OBEYED.items():
        file = Path(name).absolute()
        if os.path.lexists(file) and not is_allowed("read", str(file)):
            raise InputError(
                f"{file}: these settings of {library} can have code run, and count where you work; "
                "work in another folder, or look at the file, then set "
                f"{ALLOW_VARIABLE}={shlex.quote(f'read={file}')} in your environment"
            )


def is_named(uri: str, folder: Path) -> bool:
    """Return whether the user named the host of an address, for a run in a folder."""
    try:
        host = address_of(uri).host
    except ValueError:
        return False
    grants_here = [*_session(), *_ADMITTED.get(), *grants.of_run(folder)]
    return bool(host) and _is_among(Effect("host", host), grants_here)


def environment_for(uri: str, folder: Path) -> dict[str, str]:
    """Return the environment of a process that logs: without tokens for hosts nobody named."""
    variables = child_environment()
    if not is_named(uri, folder):
        for name in _TOKENS:
            variables.pop(name, None)
        variables |= _FILES_ASIDE
    return variables


@contextmanager
def without_tokens(uri: str, folder: Path) -> Iterator[None]:
    """Take the tokens of the user's environment away meanwhile, unless the user named the host."""
    before = dict(os.environ)
    after = environment_for(uri, folder)
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    _have(after, changed)
    try:
        yield
    finally:
        _have(before, changed)


def _have(values: Mapping[str, str], names: Collection[str]) -> None:
    """Give variables of the environment these values, or none."""
    for name in names:
        os.environ.pop(name, None)
        if name in values:
            os.environ[name] = values[name]


def trust_cluster() -> None:
    """Let sections ``cluster`` bring code, in this process and those that it starts."""
    os.environ[CLUSTER_VARIABLE] = "1"


def is_cluster_trusted() -> bool:
    """Return whether sections ``cluster`` may bring code."""
    return os.environ.get(CLUSTER_VARIABLE) == "1"


def _session() -> list[tuple[str, str]]:
    """Return what the user granted by options and by the environment."""
    granted = [
        (kind, target)
        for kind, _, target in (
            text.partition("=") for text in os.environ.get(ALLOW_VARIABLE, "").split(";")
        )
        if kind in KINDS and target
    ]
    server = os.environ.get("MLFLOW_TRACKING_URI")
    if server:
        with suppress(ValueError):
            granted.append(("host", address_of(server).host or "-"))
    return granted


def _is_among(effect: Effect, granted: Sequence[tuple[str, str]]) -> bool:
    """Return whether some grant covers an effect."""
    kind = effect.kind
    for granted_kind, target in granted:
        if granted_kind == kind and target == effect.target:
            return True
        if kind == "host" == granted_kind and target.lower() == effect.target:
            return True
        folders = ("read", "write") if kind == "read" else (kind,)
        if (
            kind in ("read", "write")
            and granted_kind in folders
            and _below(effect.target, Path(target))
        ):
            return True
    return False


def _is_free(effect: Effect, file: Path) -> bool:
    home = _folder_of(file).resolve()
    if effect.kind == "host":
        return is_loopback(effect.target)
    if effect.kind not in ("read", "write"):
        return False
    if is_at_home(effect.target, home) or (effect.here and is_at_home(effect.target, Path.cwd())):
        return True
    return any(_below(effect.target, place) for place in _own_folders(effect.kind))


def _folder_of(file: Path) -> Path:
    """Return the folder of a file; of a run its directory itself."""
    return file.absolute() if file.is_dir() else file.absolute().parent


def _own_folders(kind: str) -> Iterator[Path]:
    """Yield the folders of the user's that files may use: the cache, and to read the data sets."""
    data, cache = os.environ.get(DATA_VARIABLE), cache_dir()
    if data and kind == "read":
        yield Path(data).expanduser()
    if cache is not None:
        yield cache


def is_at_home(path: str | Path, home: Path) -> bool:
    """Return whether a path lies in a folder or below it, and is not hidden there."""
    if not _below(path, home) or home == Path(home.anchor):
        return False
    inner = Path(path).resolve().relative_to(home.resolve())
    return not any(part.startswith(".") for part in inner.parts)


def _below(path: str | Path, folder: Path) -> bool:
    return Path(path).resolve().is_relative_to(folder.resolve())


def _flat(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the plain values of nested mappings and lists by their dotted keys."""
    items = (
        tree.items()
        if isinstance(tree, Mapping)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    for key, value in items:
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping | list):
            yield name, value
            yield from _flat(value, name)
        else:
            yield name, value
