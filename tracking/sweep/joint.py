"""A study that several processes take trials of, on one machine or many.

Who does what is settled by the study itself, with what every storage of Optuna has: numbers of
trials are given once, and a trial that has ended stays as it ended.

A sweep of n trials is the first n trials that were begun *afresh*. A process that is under way
counts up an attribute of its trial. Where that stands still for too long, another process ends the
trial as *lost* and begins a *retry* of it, with the same values. Of several retries of one trial
the first one counts; what was begun in excess is ended as *surplus*.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from framework.errors import ParetolabError
from tracking.sweep.config import SweepPlan
from tracking.sweep.sampling import draw_trial
from tracking.sweep.study import BEAT, LOST, RETRY, SURPLUS, SweepStudy
from tracking.sweep.trial_runs import TrialOutcome

_BEATS = 6  # within the time after which a silent trial is lost
_LOOK = 0.5  # seconds between looks at what others do

_ENDED = (optuna.exceptions.UpdateFinishedTrialError, ValueError)


def current(trials: Sequence[FrozenTrial], wanted: int) -> list[FrozenTrial]:
    """Return the trials of a sweep, each lost one replaced by its retry where there is one.

    Parameters
    ----------
    trials : sequence of FrozenTrial
        All there are, by number.
    wanted : int
        How many the sweep has.
    """
    retries: dict[int, FrozenTrial] = {}
    for trial in trials:
        if RETRY in trial.user_attrs:
            retries.setdefault(trial.user_attrs[RETRY], trial)
    found = []
    for trial in [trial for trial in trials if RETRY not in trial.user_attrs][:wanted]:
        while is_lost(trial) and trial.number in retries:
            trial = retries[trial.number]
        found.append(trial)
    return found


def is_lost(trial: FrozenTrial) -> bool:
    """Return whether a process was lost with a trial: one that came back in time was not."""
    return trial.state == TrialState.FAIL and LOST in trial.user_attrs


class JointStudy:
    """Begins trials of a study that others share, and tells what came of them.

    Parameters
    ----------
    plan : SweepPlan
    study : SweepStudy
    """

    def __init__(self, plan: SweepPlan, study: SweepStudy) -> None:
        self._plan, self._study = plan, study
        self._seen: dict[int, tuple[object, float]] = {}  # a trial's last beat, and when it came

    def done(self) -> int:
        """Return how many trials have ended."""
        return sum(t.state.is_finished() and not is_lost(t) for t in self._current())

    def begin(self) -> int | None:
        """Return the number of a trial that is ours to run; None where all have ended.

        While others are at work on the last ones it waits: one of them may be lost.
        """
        while True:
            trials = self._study.trials()
            afresh = sum(RETRY not in trial.user_attrs for trial in trials)
            number = None
            if (lost := self._lost()) is not None:
                number = self._again(lost)
            elif afresh < self._plan.sweep.trials:
                number = self._afresh()
            elif self.done() == self._plan.sweep.trials:
                return None
            else:
                time.sleep(_LOOK)
            if number is not None:
                return number

    def tell(self, outcome: TrialOutcome) -> bool:
        """Note what came of a trial; return whether it was still ours."""
        try:
            if outcome.again:
                self._give_up(outcome.number)
            else:
                self._study.tell(outcome)
        except _ENDED:
            return False
        return True

    @contextmanager
    def alive(self, number: int) -> Iterator[None]:
        """Count up the beats of a trial meanwhile; leave it to others where this is interrupted."""
        over = Event()
        thread = Thread(target=self._beat, args=(number, over), daemon=True)
        thread.start()
        try:
            yield
        except (KeyboardInterrupt, ParetolabError):
            with suppress(*_ENDED):
                self._give_up(number)
            raise
        finally:
            over.set()
            thread.join()

    def _beat(self, number: int, over: Event) -> None:
        count = 0
        while not over.wait(self._plan.sweep.grace / _BEATS):
            count += 1
            with suppress(Exception):  # a store that is busy: the next beat may come through
                self._study.note(number, BEAT, count)

    def _current(self) -> list[FrozenTrial]:
        return current(self._study.trials(), self._plan.sweep.trials)

    def _afresh(self) -> int | None:
        """Begin a trial; return its number, or None where others were faster."""
        number = self._study.add(create_trial(state=TrialState.RUNNING))
        trials = self._study.trials()
        earlier = sum(RETRY not in trial.user_attrs for trial in trials[:number])
        if earlier >= self._plan.sweep.trials:
            self._end(number, SURPLUS)
            return None
        self._study.fill(number, draw_trial(self._plan, trials[:number]))
        return number

    def _lost(self) -> FrozenTrial | None:
        """Return a trial of this sweep to be tried again, ended as lost; None where there is none.

        A trial that another process has ended as lost is left to that one as long as a silent one.
        """
        now = time.monotonic()
        for trial in self._current():
            if trial.state.is_finished() and not is_lost(trial):
                continue
            sign = (trial.state, trial.user_attrs.get(BEAT))
            known, since = self._seen.setdefault(trial.number, (sign, now))
            if sign != known:
                self._seen[trial.number] = (sign, now)
            elif now - since > self._plan.sweep.grace:
                if is_lost(trial):
                    return trial
                with suppress(*_ENDED):
                    self._give_up(trial.number)
                    return trial
        return None

    def _again(self, lost: FrozenTrial) -> int | None:
        """Begin the retry of a lost trial; return its number, or None where others were faster."""
        trial = lost
        if not self._plan.is_complete(lost.params):  # it was lost before it had all values
            trial = draw_trial(self._plan, self._study.trials()[: lost.number])
        kept = {key: v for key, v in trial.user_attrs.items() if key not in (LOST, BEAT, RETRY)}
        retry = create_trial(
            state=TrialState.RUNNING,
            params=trial.params,
            distributions=trial.distributions,
            system_attrs=trial.system_attrs,
            user_attrs=kept | {RETRY: lost.number},
        )
        number = self._study.add(retry)
        earlier = self._study.trials()[:number]
        if any(other.user_attrs.get(RETRY) == lost.number for other in earlier):
            self._end(number, SURPLUS)
            return None
        return number

    def _give_up(self, number: int) -> None:
        """End a trial as lost; raise where it has ended."""
        self._end(number, LOST)

    def _end(self, number: int, why: str) -> None:
        self._study.note(number, why, True)
        self._study.study.tell(number, state=TrialState.FAIL)
