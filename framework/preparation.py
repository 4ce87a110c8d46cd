"""Long work of an algorithm before its first batch: with progress, time limit and resumption."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field

from framework.checkpoints import Checkpoints
from framework.workforce import InProcess, Workforce


@dataclass(frozen=True)
class PreparationProgress:
    """Progress of work that comes before the first values, such as training shared parts.

    Attributes
    ----------
    what : str
        A description of the work.
    done, total : int
        How many pieces are finished, and how many there are.
    seconds : float
        Time since it began.
    values : mapping of str to float
        Numbers worth following, such as incumbent, bound and gap.
    """

    what: str
    done: int
    total: int
    seconds: float = 0.0
    values: Mapping[str, float] = field(default_factory=dict)


def _ignore(work: PreparationProgress) -> None:
    """Take a report and do nothing."""


@dataclass
class Preparation:
    """What an algorithm uses for the work that its first batch depends on.

    It should report at least every second or so, because interruptions take effect there. Work
    that takes minutes should write down what it has proven in ``notes``, and should stop when
    ``over`` returns true, if it can stop early with an answer.

    Attributes
    ----------
    workers : Workforce
        Builds shared parts and does pieces of the work; results do not depend on it.
    notes : mutable mapping of str to bytes
        Intermediate results, also those of earlier sessions of the same run.
    over : callable
        Returns whether the run's budget of seconds is spent.
    """

    workers: Workforce = field(default_factory=InProcess)
    notes: MutableMapping[str, bytes] = field(default_factory=Checkpoints)
    over: Callable[[], bool] = lambda: False
    tell: Callable[[PreparationProgress], None] = _ignore

    def report(self, what: str, done: int, total: int, **values: float) -> None:
        """Report the progress of the work; raises KeyboardInterrupt where it is interrupted."""
        self.tell(PreparationProgress(what, done, total, values=values))
