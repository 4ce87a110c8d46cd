"""Addresses of stores: where they lead, and how their passwords stay out of every file and message.

A configuration writes ``${NAME}`` where a user or a password belongs: what is written down, shown
and given to other processes has the name; the value is taken from the environment where a
connection is made. An address is read by one strict grammar, so that no library that connects can
read another host in it than :mod:`~framework.security.policy` did.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from framework.errors import InputError

# in a web address a password ends before the first slash, for a database's driver at the last @
_WEB = re.compile(r"(https?://[^/:@?#]*):([^/?#]*)@")
_STORE = re.compile(r"((?<!http)(?<!https)://[^/:@?#]*):(\$\{\w+\}|.*)@")
_SECRETS = (
    "pass|password|passwd|passphrase|pwd|token|secret|credentials?|signature|sig|"
    "(?:api|access|account)_?key"
)
_QUERY = re.compile(rf"([?&][\w-]*(?:{_SECRETS})=)([^&#]*)", re.IGNORECASE)
_NAME = re.compile(r"\$\{(\w+)\}")
_HIDDEN = "***"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9.+_-]*):")
_DATABASE = re.compile(r"(postgresql|postgres|mysql|mariadb|mssql|oracle)(\+\w+)?")
_ADDRESS = re.compile(
    r"(?P<scheme>[a-z0-9+]+)://"
    r"(?:(?P<user>[^/:@?#\[\]]*)(?::(?P<password>[^/:@?#\[\]]*))?@)?"
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])?(?::(?P<port>\d*))?"
    r"(?P<path>/[^@?#]*)?(?:\?(?P<query>[^@#]*))?"
)
_HARMLESS = {"sslmode", "charset", "connect_timeout", "application_name"}  # options of databases
_HOST_FREE = "localhost"

TRACKING = frozenset({"sqlite", "http", "https", "databricks", "database"})
"""Kinds of addresses that runs may be logged to."""
STORAGE = frozenset({"sqlite", "grpc", "database"})
"""Kinds of addresses that a sweep may keep its study at."""


class Address(NamedTuple):
    """Where an address leads.

    Attributes
    ----------
    kind : str
        ``sqlite``, ``http``, ``https``, ``grpc``, ``databricks`` or ``database``.
    host : str
        In small letters; empty for what is on this machine's disk.
    file : str
        The file of a SQLite store; empty for all others.
    variables : tuple of str
        Those of the environment that stand for a user or a password.
    options : bool
        Whether it has options that a database's driver may read files or connect elsewhere for.
    """

    kind: str
    host: str = ""
    file: str = ""
    variables: tuple[str, ...] = ()
    options: bool = False


def address_of(uri: str, kinds: Collection[str] = TRACKING) -> Address:
    """Return where an address leads.

    Raises
    ------
    ValueError
        It is none of the kinds, or cannot be read in one way alone.
    """
    scheme = _SCHEME.match(uri)  # without one, a library may read what none of us sees in it
    name = scheme[1] if scheme else uri
    kind = "database" if _DATABASE.fullmatch(name) else name
    if kind not in kinds:
        raise ValueError(
            f"expected an address that begins with {_listed(kinds)}, found {public_uri(uri)!r}"
        )
    if kind == "sqlite":
        return Address(kind, file=_file_of(uri))
    if kind == "databricks":
        if not re.fullmatch(r"databricks(://[\w-]+)?", uri):
            raise ValueError(f"expected databricks or databricks://PROFILE, found {uri!r}")
        return Address(kind, host=kind)
    match = _ADDRESS.fullmatch(uri) if uri.isascii() and "\\" not in uri else None
    if match is None or re.search(r"[\s\x00-\x1f]", uri):
        raise ValueError(
            f"expected an address such as {name}://user:${{PASSWORD}}@host:port/name, found "
            f"{public_uri(uri)!r}"
        )
    query = match["query"] or ""
    if "$" in (match["path"] or "") or "$" in _QUERY.sub(_without_name, f"?{query}"):
        raise ValueError(
            "expected variables of the environment where a user or a password stands, as in "
            f"{name}://${{NAME}}:${{PASSWORD}}@host/name, found one elsewhere in {uri!r}"
        )
    keys = {part.partition("=")[0] for part in query.split("&") if part}
    host = (match["host"] or "").strip("[]").lower()
    return Address(
        kind,
        host or _HOST_FREE,
        variables=tuple(dict.fromkeys(_NAME.findall(uri))),
        # a driver without a host reads its own settings for one
        options=kind == "database" and (bool(keys - _HARMLESS) or not host),
    )


def _without_name(match: re.Match[str]) -> str:
    return match[1] if _is_named(match[2]) else match[0]


def _file_of(uri: str) -> str:
    """Return the file that the address of a SQLite store names."""
    if "${" in uri:
        raise ValueError(
            f"expected the path of a file, found a variable of the environment in {uri!r}; write "
            "the path out"
        )
    path = uri.removeprefix("sqlite:///")
    if path == uri:
        raise ValueError(f"expected sqlite:///FILE, found {uri!r}")
    coded = re.sub(r"%(?!00)[0-9A-Fa-f]{2}", "", path)  # SQLAlchemy takes them back, once
    plain = unquote(path)
    if not plain or plain.startswith("file:") or re.search(r"[?#%\x00-\x1f]", coded):
        raise ValueError(f"expected the plain path of a file, found {uri!r}")
    return plain


def sqlite_uri(file: Path) -> str:
    """Return the address of a SQLite file, whatever signs are in its path."""
    coded = re.sub(r"[?#%\x00-\x1f]", lambda sign: f"%{ord(sign[0]):02X}", file.as_posix())
    return f"sqlite:///{coded}"


def _listed(kinds: Collection[str]) -> str:
    shown = {
        "database": "postgresql://, mysql://",
        "databricks": "databricks",
        "sqlite": "sqlite:///",
    }
    return ", ".join(shown.get(kind, f"{kind}://") for kind in sorted(kinds))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine by any name that no other machine can have."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == _HOST_FREE


def public_uri(uri: str) -> str:
    """Return the URI with its passwords hidden; names of variables stay."""
    for secret in (_WEB, _STORE, _QUERY):
        uri = secret.sub(lambda m: m[0] if _is_named(m[2]) else _hidden(m), uri)
    return uri


def without_password(uri: str) -> str:
    """Return a URI that may be written down.

    Raises
    ------
    ValueError
        There is a password in it; the message does not say which.
    """
    if public_uri(uri) != uri:
        raise ValueError(
            "expected no password in the address, found one; write a variable's name in its place, "
            "such as scheme://user:${DB_PASSWORD}@host/name, and set that variable"
        )
    return uri


def expanded(uri: str) -> str:
    """Return the URI with the variables of the environment that it names; to connect with.

    What a value has of an address's own signs is written in percent signs: whatever it is, it
    stays the user or the password.

    Raises
    ------
    InputError
        A variable is not set.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise InputError(
                f"{public_uri(uri)}: expected the environment variable {match[1]} to be set, found "
                "it is not"
            )
        return quote(os.environ[match[1]], safe="%!$&'()*+,;=~")

    return _NAME.sub(value, uri)


def redacted(text: str, uri: str) -> str:
    """Return a text, of a driver's say, without the values of the variables that the URI names."""
    for name in _NAME.findall(uri):
        secret = os.environ.get(name)
        for spelling in (secret, secret and quote(secret, safe="%!$&'()*+,;=~")):
            text = text.replace(spelling, _HIDDEN) if spelling else text
    return text


def _is_named(secret: str) -> bool:
    return not secret or _NAME.fullmatch(secret) is not None


def _hidden(match: re.Match[str]) -> str:
    end = "@" if match[0].endswith("@") and "://" in match[1] else ""
    middle = ":" if end else ""
    return f"{match[1]}{middle}{_HIDDEN}{end}"
