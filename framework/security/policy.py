"""What a received file may do: all its effects are recorded, and allowed or refused only here.

An effect is to connect to a host, to read a variable of the environment, to read or write outside
the file's folder, or to make workers install and run something. Sections of a configuration record
their effects (:mod:`framework.effects`) while they are checked. A file is read within
:func:`received`, which at its end refuses the effects that were not granted. So nothing is
connected to, read or written before everything is decided. Outside of :func:`received` nothing is
refused: what a user writes in Python is the user's own decision.

Free effects need no grant: the file's folder and those below it except hidden ones, the cache, the
folder of data sets, a SQLite store in the working folder, this machine's loopback without
variables. The user grants an effect by typing it, by ``PARETOLAB_ALLOW`` or
``MLFLOW_TRACKING_URI``, or by trusting the file, until it changes; a run keeps what it was granted
when it began (:mod:`~framework.security.grants`). What workers run is granted for one command only,
because no digest covers the code that a section ``cluster`` names.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framework.effects import KINDS, NOTED, Effect, note
from framework.errors import InputError, command
from framework.machine import cache_dir, child_environment, environment_restored
from framework.security import grants
from framework.security.escaping import line_text
from framework.security.uris import TRACKING, address_of, is_loopback, public_uri

ALLOW_VARIABLE = "PARETOLAB_ALLOW"
CLUSTER_VARIABLE = "PARETOLAB_TRUST_CLUSTER"
DATA_VARIABLE = "PARETOLAB_DATA"
NO_CREDENTIALS = "PARETOLAB_NO_CREDENTIALS"
"""Set if MLflow may not use the file of passwords in the user's home for the server."""

_TOKENS = (  # MLflow sends these to every server
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
_FILES_ASIDE = {  # keep passwords in files of the user's home from being sent to every server
    "NETRC": os.devnull,
    NO_CREDENTIALS: "1",
}
_OBEYED = {".numba_config.yaml": "Numba", "matplotlibrc": "Matplotlib"}  # in the working folder
_SENTENCES = {
    "host": "connects to {}",
    "variable": "sends the variable {} of your environment",
    "read": "reads {}",
    "write": "writes {}",
    "options": "connects with the options of {}",
    "cluster": "has workers run or install what its section cluster names ({})",
}


def text_of(effect: Effect) -> str:
    """Return an effect in words, as the verb of a sentence: ``connects to example.org``."""
    shown = effect.text if effect.kind == "cluster" else effect.target
    return _SENTENCES[effect.kind].format(line_text(shown))


@dataclass
class Received:
    """A file that is being read, and the effects that were recorded for it.

    Attributes
    ----------
    file : pathlib.Path
        The file, or the directory of a run.
    typed : sequence of str
        Keys whose values the user typed.
    effects : list of Effect
    raw : mapping
        The content of the file, to find the key of an effect.
    asks : bool
        Whether :func:`ask_now` may refuse files that it names; False while the user trusts it.
    named : list of pathlib.Path
        The configurations that it names, which are trusted together with it.
    """

    file: Path
    typed: Sequence[str] = ()
    effects: list[Effect] = field(default_factory=list)
    raw: Mapping[str, Any] = field(default_factory=dict)
    asks: bool = True
    named: list[Path] = field(default_factory=list)

    def key_of(self, effect: Effect) -> str:
        """Return the whole key at which an effect stands, or its last part if it is not found."""
        return next(iter(self._keys_of(effect)), effect.key)

    def _keys_of(self, effect: Effect) -> list[str]:
        """Return the keys of an effect's name; only those with its value, if there are any.

        A value that is a path is also compared in the spelling of :class:`~pathlib.Path`.
        """
        named = {
            key: str(value)
            for key, value in _flat(self.raw)
            if key.rpartition(".")[2] == effect.key or f".{effect.key}." in f".{key}."
        }
        return [k for k, v in named.items() if effect.text in (v, str(Path(v)))] or list(named)

    def is_granted(self, effect: Effect) -> bool:
        """Return whether the user granted an effect other than by trusting the file.

        An effect that may stand at several keys counts as typed only if the values of all of them
        were typed: a file could repeat what the user typed at another key.
        """
        keys = self._keys_of(effect) or [effect.key]
        typed = all(any(k == n or k.startswith(f"{n}.") for n in self.typed) for k in keys)
        if effect.kind == "cluster":
            return typed or is_cluster_trusted()
        if typed or (effect.kind == "host" and _is_own_server(effect.text)):
            return True
        return _is_among(effect, [*_session(), *grants.of_run(_folder_of(self.file))])

    def is_free(self, effect: Effect) -> bool:
        """Return whether an effect needs no grant."""
        home = _folder_of(self.file).resolve()
        if effect.kind == "host":
            return is_loopback(effect.target)
        if effect.kind not in ("read", "write"):
            return False
        if is_at_home(effect.target, home) or (
            effect.here and is_at_home(effect.target, Path.cwd())
        ):
            return True
        return any(_below(effect.target, place) for place in _free_folders(effect.kind))

    def missing(self) -> list[Effect]:
        """Return the effects that are neither free nor granted."""
        missing = [e for e in self.distinct() if not self.is_free(e) and not self.is_granted(e)]
        if missing and grants.is_trusted(self.file, self.named):
            return [effect for effect in missing if effect.kind == "cluster"]
        return missing

    def distinct(self) -> list[Effect]:
        """Return the effects, each once."""
        seen: dict[tuple[str, str], Effect] = {}
        for effect in self.effects:
            seen.setdefault(effect[:2], effect)
        return list(seen.values())

    def refusal(self, effect: Effect) -> str:
        """Return the sentence that refuses an effect."""
        return (
            f"{self.file}: {line_text(self.key_of(effect))}: {text_of(effect)}, which you have "
            f"not granted; look at the file, then say {command('trust', self.file)} once, or add "
            f"{line_text(effect.grant)}"
        )


_READING: ContextVar[Received | None] = ContextVar("reading", default=None)
_ADMITTED: ContextVar[tuple[grants.Grant, ...]] = ContextVar("admitted", default=())


def note_address(uri: str, key: str, kinds: frozenset[str]) -> str:
    """Record the effects of connecting to an address; return the address.

    Raises
    ------
    ValueError
        The address is of none of these kinds.
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
    """Record the effects of a file while its content is checked, and decide on them at the end.

    Within another block of :func:`received` the effects are recorded and decided on there.

    Parameters
    ----------
    file : pathlib.Path
        The file, or the directory of a run.
    typed : sequence of str
        Keys whose values the user typed: assignments ``key=value`` or keys.
    raw : mapping, optional
        The content of the file.
    decide : bool
        Whether effects that were not granted are refused.
    asks : bool
        Whether :func:`ask_now` refuses files that must be read before the end of the block.

    Raises
    ------
    InputError
        Effects are neither free nor granted; the message has a line for each.
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
    """Record that a file names another configuration, and refuse to read it if not granted.

    Raises
    ------
    InputError
    """
    try:
        path.resolve()
    except (RuntimeError, OSError, ValueError) as error:  # a loop; a null byte
        raise InputError(f"{key}: expected the path of a file, found {text!r} ({error})") from error
    note("read", str(path.absolute()), key, text, here=True)
    reading = _READING.get()
    if reading is not None:
        reading.named.append(path)
    ask_now()


def ask_now() -> None:
    """Refuse the reading of files that was recorded so far and not granted.

    It is called before such a file is read in order to check the rest of the configuration.

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
    """Refuse effects that were not granted; remember the others until the command ends.

    Raises
    ------
    InputError
    """
    missing = reading.missing()
    refused = [effect for effect in missing if effect.kind != "cluster"]  # decided when Ray starts
    if refused:
        raise InputError("\n".join(map(reading.refusal, refused)))
    may = [effect for effect in reading.distinct() if effect not in missing]
    if any(effect.kind == "cluster" for effect in may):
        trust_cluster()
    _ADMITTED.set(tuple(dict.fromkeys([*_ADMITTED.get(), *_remembered(reading, may)])))


def _remembered(reading: Received, may: Sequence[Effect]) -> list[grants.Grant]:
    """Return the effects that a run of a file stays allowed to have.

    This machine's hosts need no grant; they are among them only if the user named them, because
    tokens are sent only to hosts that the user named.
    """
    return [
        effect[:2]
        for effect in may
        if effect.kind != "cluster"
        and (effect.kind != "host" or not reading.is_free(effect) or reading.is_granted(effect))
    ]


def trust_files(files: Sequence[Received]) -> None:
    """Grant files their effects until they change, and directories of runs theirs for good.

    Raises
    ------
    OSError
        The grants cannot be written.
    """
    grants.remember({read.file: read.named for read in files if not read.file.is_dir()})
    for run in (read for read in files if read.file.is_dir()):
        grants.seal(run.file, _remembered(run, run.distinct()))


@contextmanager
def from_program(file: Path) -> Iterator[None]:
    """Grant a run that a user starts from Python the files of its configuration, for a resume.

    The configuration is checked within the block, which refuses nothing; ``file`` is where it will
    be written. Hosts and the section ``cluster`` are not granted by that.
    """
    with received(file, decide=False, asks=False) as program:
        yield
    files = [effect[:2] for effect in program.distinct() if effect.kind in ("read", "write")]
    _ADMITTED.set(tuple(dict.fromkeys([*_ADMITTED.get(), *files])))


@contextmanager
def allowing(options: Sequence[str]) -> Iterator[None]:
    """Grant the effects of options ``--allow KIND=TARGET`` within the block, also to children.

    Those of the environment are granted by :func:`_session`; here they are checked.

    Raises
    ------
    InputError
        One of the options, or of the texts in ``PARETOLAB_ALLOW``, has another form.
    """
    before = filter(None, os.environ.get(ALLOW_VARIABLE, "").split(";"))
    granted = [*map(parse_grant, options), *(parse_grant(text, ALLOW_VARIABLE) for text in before)]
    token = _ADMITTED.set(())
    try:
        with environment_restored((ALLOW_VARIABLE, CLUSTER_VARIABLE)):
            if granted:
                os.environ[ALLOW_VARIABLE] = ";".join(f"{kind}={text}" for kind, text in granted)
            yield
    finally:
        _ADMITTED.reset(token)


def parse_grant(text: str, place: str = "--allow") -> tuple[str, str]:
    """Return the kind and the target of ``KIND=TARGET``; a path is made absolute.

    ``place`` is where the text was given, for messages.

    Raises
    ------
    InputError
    """
    kind, equals, target = text.partition("=")
    if kind not in KINDS[:-1] or not equals or not target or ";" in target:
        raise InputError(
            f"{place}: expected KIND=TARGET such as host=mlflow.example.org, with one of "
            f"{', '.join(KINDS[:-1])} as the kind, found {text!r}"
        )
    if kind in ("read", "write"):
        target = str(Path(os.path.expanduser(target)).resolve())
    return kind, target


def keep(folder: Path, more: Sequence[grants.Grant] = ()) -> None:
    """Record in the directory of a run what it was granted, so that it can be resumed."""
    with suppress(OSError):  # it cannot be written: the user has to grant it again
        grants.seal(folder, [*_ADMITTED.get(), *more])


def check_address(uri: str, folder: Path, key: str, *, typed: bool = False) -> None:
    """Refuse an address from a file in a run's directory if it may not be connected to.

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
    """Return whether the user granted an effect by an option or in the environment."""
    return _is_among(Effect(kind, target), _session())


def check_working_folder() -> None:
    """Refuse settings of libraries in the working folder, since somebody else may have made it.

    Numba and Matplotlib look for their settings there first, and these can name code to load and
    programs to start.

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
    """Return whether the user named the server of an address, for a run in a folder."""
    try:
        host = address_of(uri).host
    except ValueError:
        return False
    grants_here = [*_session(), *_ADMITTED.get(), *grants.of_run(folder)]
    return _is_own_server(uri) or (bool(host) and _is_among(Effect("host", host), grants_here))


def _is_own_server(uri: str) -> bool:
    """Return whether an address is that of the server in ``MLFLOW_TRACKING_URI``.

    Scheme and port count, too: another user of a shared machine may listen at another port, and
    ``http`` sends in clear text what ``https`` would not.
    """
    with suppress(ValueError):
        one, other = address_of(uri), address_of(os.environ.get("MLFLOW_TRACKING_URI", ""))
        return bool(one.host) and one[:3] == other[:3]
    return False


def environment_for(uri: str, folder: Path) -> dict[str, str]:
    """Return the environment of a process that logs: tokens only if the user named the host."""
    variables = child_environment()
    if not is_named(uri, folder):
        for name in _TOKENS:
            variables.pop(name, None)
        variables |= _FILES_ASIDE
    return variables


@contextmanager
def without_tokens(uri: str, folder: Path) -> Iterator[None]:
    """Give this process the environment of :func:`environment_for` within the block."""
    after = environment_for(uri, folder)
    removed = os.environ.keys() - after.keys()
    added = {name: text for name, text in after.items() if os.environ.get(name) != text}
    with environment_restored([*removed, *added]):
        for name in removed:
            del os.environ[name]
        os.environ.update(added)
        yield


def trust_cluster() -> None:
    """Allow sections ``cluster`` to bring code, in this process and those that it starts."""
    os.environ[CLUSTER_VARIABLE] = "1"


def is_cluster_trusted() -> bool:
    """Return whether sections ``cluster`` may bring code."""
    return os.environ.get(CLUSTER_VARIABLE) == "1"


def _session() -> list[tuple[str, str]]:
    """Return what the user granted by options and by ``PARETOLAB_ALLOW``."""
    return [
        (kind, target)
        for kind, _, target in (
            text.partition("=") for text in os.environ.get(ALLOW_VARIABLE, "").split(";")
        )
        if kind in KINDS and target
    ]


def _is_among(effect: Effect, granted: Sequence[tuple[str, str]]) -> bool:
    """Return whether some grant covers an effect; a grant to write covers reading."""
    if effect.kind in ("read", "write"):
        kinds = {effect.kind, "write"}
        return any(k in kinds and _below(effect.target, Path(target)) for k, target in granted)
    if effect.kind == "host":  # the hosts of addresses are in small letters
        granted = [(kind, target.lower()) for kind, target in granted]
    return effect[:2] in granted


def _folder_of(file: Path) -> Path:
    """Return the folder of a file, or the directory of a run itself."""
    return file.absolute() if file.is_dir() else file.absolute().parent


def _free_folders(kind: str) -> Iterator[Path]:
    """Yield the user's folders that any file may use: the cache and, to read, the data sets."""
    data, cache = os.environ.get(DATA_VARIABLE), cache_dir()
    if data and kind == "read":
        yield Path(os.path.expanduser(data))
    if cache is not None:
        yield cache


def is_at_home(path: str | Path, home: Path) -> bool:
    """Return whether a path lies below a folder, which is not the root, and is not hidden there."""
    if not _below(path, home) or home == Path(home.anchor):
        return False
    inner = Path(path).resolve().relative_to(home.resolve())
    return not any(part.startswith(".") for part in inner.parts)


def _below(path: str | Path, folder: Path) -> bool:
    return Path(path).resolve().is_relative_to(folder.resolve())


def _flat(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all values in nested mappings and lists, and these themselves, with dotted keys."""
    for key, value in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
        name = f"{prefix}.{key}" if prefix else str(key)
        yield name, value
        if isinstance(value, Mapping | list):
            yield from _flat(value, name)
