"""What a received file would do beyond being read, noted while its content is checked.

Sections of a configuration :func:`note` what they do; :mod:`framework.security` decides on it.
"""

from __future__ import annotations

import shlex
from contextvars import ContextVar
from typing import NamedTuple

KINDS = ("host", "variable", "read", "write", "options", "cluster")


class Effect(NamedTuple):
    """Something that a file would do.

    Attributes
    ----------
    kind : str
        ``host`` (connect to it), ``variable`` (send that of the environment), ``read`` or ``write``
        (a path), ``options`` (connect with those of an address) or ``cluster`` (have workers run
        what the section of that name says).
    target : str
        The host, the variable, the absolute path, the address, or the section in JSON.
    key : str
        The last part of the key it stands at.
    text : str
        The value there, to find the whole key by.
    here : bool
        Whether a path is free in the working folder, too.
    """

    kind: str
    target: str
    key: str = ""
    text: str = ""
    here: bool = False

    @property
    def grant(self) -> str:
        """The option that grants it."""
        if self.kind == "cluster":
            return "--trust-cluster"
        return f"--allow {shlex.quote(f'{self.kind}={self.target}')}"


NOTED: ContextVar[list[Effect] | None] = ContextVar("noted", default=None)
"""The effects of the file whose content is being checked; None where none is."""


def note(kind: str, target: str, key: str, text: object = "", *, here: bool = False) -> None:
    """Note an effect of the file that is being read; nothing happens where none is."""
    noted = NOTED.get()
    if noted is not None:
        noted.append(Effect(kind, target, key, str(text), here))
