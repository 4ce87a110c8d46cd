"""Long work: what an algorithm does before its first row, shown, bounded and resumable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field

from framework.notes import Notes
from framework.workforce import InProcess, Workforce


@dataclass(frozen=True)
class Work:
    """What goes on before there are answers.

    Attributes
    ----------
    what : str
        In words.
    done, total : int
        How much of it is done, and how much there is.
    seconds : float
        Since it began.
    values : mapping of str to float
        Numbers worth following, such as incumbent, bound and gap.
    """

    what: str
    done: int
    total: int
    seconds: float = 0.0
    values: Mapping[str, float] = field(default_factory=dict)


def _ignore(work: Work) -> None:
    """Take a report and do nothing."""


@dataclass
class LongWork:
    """What an algorithm is given for the work that its first row rests on.

    It should report often (at least every second or so): interruptions are heeded there. Work of
    minutes and more should keep notes of what is proven and, where it can stop early with an
    answer, stop once ``over`` says so.

    Attributes
    ----------
    workers : Workforce
        Who builds shared parts and does pieces of the work; results do not depend on them.
    notes : mutable mapping of str to bytes
        What an earlier session of the same run noted; what is noted now is there for a later one.
    over : callable
        Tells whether the run's budget of seconds is spent.
    """

    workers: Workforce = field(default_factory=InProcess)
    notes: MutableMapping[str, bytes] = field(default_factory=Notes)
    over: Callable[[], bool] = lambda: False
    tell: Callable[[Work], None] = _ignore

    def report(self, what: str, done: int, total: int, **values: float) -> None:
        """Say what is being done and how far it is; ends the work where the user interrupts."""
        self.tell(Work(what, done, total, values=values))
