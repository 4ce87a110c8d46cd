"""What a received file would do beyond being read, recorded while its content is checked.

Sections of a configuration :func:`note` their effects; :mod:`framework.security` decides whether
they are allowed.
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
        ``host`` (connect to a host), ``variable`` (send an environment variable), ``read`` or
        ``write`` (a path), ``options`` (connect with the options of an address) or ``cluster``
        (have workers run what the section ``cluster`` says).
    target : str
        The host, the variable, the absolute path, the address, or the section in JSON.
    key : str
        The last part of the configuration key that has the effect.
    text : str
        The value of that key, from which the whole key is found.
    here : bool
        Whether a path is also allowed if it lies in the working folder.
    """

    kind: str
    target: str
    key: str = ""
    text: str = ""
    here: bool = False

    @property
    def grant(self) -> str:
        """The command-line option that allows the effect."""
        if self.kind == "cluster":
            return "--trust-cluster"
        return f"--allow {shlex.quote(f'{self.kind}={self.target}')}"


NOTED: ContextVar[list[Effect] | None] = ContextVar("noted", default=None)
"""The effects of the file whose content is being checked; None if no file is being checked."""


def note(kind: str, target: str, key: str, text: object = "", *, here: bool = False) -> None:
    """Record an effect of the file that is being checked; do nothing if there is none."""
    noted = NOTED.get()
    if noted is not None:
        noted.append(Effect(kind, target, key, str(text), here))
