"""Who builds what a problem is made of before it exists, such as a library of models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Builders(NamedTuple):
    """Workers as a configuration names them, and the Ray cluster to join, if any."""

    workers: str | int = "auto"
    address: str | None = None


_ANYONE = Builders()
_BUILDERS: ContextVar[Builders] = ContextVar("builders", default=_ANYONE)


def builders() -> Builders:
    """Return who builds at present."""
    return _BUILDERS.get()


@contextmanager
def built_by(workers: str | int, address: str | None = None) -> Iterator[None]:
    """Have what is made within built by these workers."""
    token = _BUILDERS.set(Builders(workers, address))
    try:
        yield
    finally:
        _BUILDERS.reset(token)
