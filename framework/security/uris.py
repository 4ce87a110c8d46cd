"""Addresses of stores, whose passwords stay in the environment and out of every file and message.

A configuration writes ``${NAME}`` where a password belongs: what is written down, shown and given
to other processes has the name; the value is taken from the environment where a connection is made.
"""

from __future__ import annotations

import os
import re

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
        return os.environ[match[1]]

    return _NAME.sub(value, uri)


def redacted(text: str, uri: str) -> str:
    """Return a text, of a driver's say, without the values of the variables that the URI names."""
    for name in _NAME.findall(uri):
        secret = os.environ.get(name)
        text = text.replace(secret, _HIDDEN) if secret else text
    return text


def _is_named(secret: str) -> bool:
    return not secret or _NAME.fullmatch(secret) is not None


def _hidden(match: re.Match[str]) -> str:
    end = "@" if match[0].endswith("@") and "://" in match[1] else ""
    middle = ":" if end else ""
    return f"{match[1]}{middle}{_HIDDEN}{end}"
