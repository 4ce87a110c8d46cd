"""Addresses of stores: where they lead, and how passwords are kept out of files and messages.

A configuration writes ``${NAME}`` in place of a user or a password. Only the name is written to
files, shown, and passed to other processes; the value is taken from the environment when a
connection is made. Addresses are read by one strict grammar, so that a library that connects cannot
see another host in an address than :mod:`~framework.security.policy` has checked.
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

# The password of a web address ends before the first slash, that of a database's at the last @.
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
_PORTS = {"http": "80", "https": "443"}

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
        In small letters; empty for a SQLite store.
    port : str
        Empty where the address has none, or that of its kind.
    file : str
        The file of a SQLite store; empty for all others.
    variables : tuple of str
        The environment variables that stand for a user or a password.
    options : bool
        Whether it has options that may make a database's driver read files or connect elsewhere.
    """

    kind: str
    host: str = ""
    port: str = ""
    file: str = ""
    variables: tuple[str, ...] = ()
    options: bool = False


def address_of(uri: str, kinds: Collection[str] = TRACKING) -> Address:
    """Return where an address leads.

    Raises
    ------
    ValueError
        It is of none of these kinds, or is ambiguous.
    """
    scheme = _SCHEME.match(uri)  # without one, libraries differ in how they read an address
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
        (match["port"] or "") if match["port"] != _PORTS.get(kind) else "",
        variables=tuple(dict.fromkeys(_NAME.findall(uri))),
        # without a host, a driver takes one from its own settings
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
    if path == uri or any("\ud800" <= sign <= "\udfff" for sign in uri):  # half a sign
        raise ValueError(f"expected sqlite:///FILE, found {uri!r}")
    rest = re.sub(r"%(?!00)[0-9A-Fa-f]{2}", "", path)  # without the codes that SQLAlchemy decodes
    plain = unquote(path)
    if not plain or plain.startswith("file:") or re.search(r"[?#%\x00-\x1f]", rest):
        raise ValueError(f"expected the plain path of a file, found {uri!r}")
    return plain


def sqlite_uri(file: Path) -> str:
    """Return the address of a SQLite file; special characters of its path are percent-encoded."""
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
    """Return whether a host name or IP address always means this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == _HOST_FREE


def public_uri(uri: str) -> str:
    """Return the address with its passwords hidden; names of variables stay."""
    for secret in (_WEB, _STORE, _QUERY):
        uri = secret.sub(lambda m: m[0] if _is_named(m[2]) else _hidden(m), uri)
    return uri


def without_password(uri: str) -> str:
    """Return an address unchanged if it contains no password.

    Raises
    ------
    ValueError
        It contains a password, which the message does not repeat.
    """
    if public_uri(uri) != uri:
        raise ValueError(
            "expected no password in the address, found one; write a variable's name in its place, "
            "such as scheme://user:${DB_PASSWORD}@host/name, and set that variable"
        )
    return uri


def expanded(uri: str) -> str:
    """Return the address with the values of the environment variables that it names.

    Characters of a value that have a meaning in addresses are percent-encoded, so that the value
    stays a user or a password.

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
    """Return a text, such as a driver's message, without the values of an address's variables."""
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
