"""The study of a sweep in Optuna: the trials so far with their values, and the next ones.

A trial is drawn in memory (:mod:`tracking.sweep.sampling`), only from its number and the trials
before it, and is added to the database as a whole, in one transaction. So a sweep that was killed
at any moment continues with the same trials as without the interruption.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import optuna
import sqlalchemy
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.storages import RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.storages._heartbeat import get_heartbeat_thread, is_heartbeat_enabled
from optuna.trial import FrozenTrial, TrialState

from framework.errors import InputError, ParetolabError, damaged, first_line
from framework.files import check_database
from framework.roles import Sense
from framework.security import expanded, public_uri, redacted
from tracking.mlflow_log.store import sqlite_file
from tracking.sweep.config import SweepConfig, SweepPlan
from tracking.sweep.sampling import LIMITS, directions, draw_trial
from tracking.sweep.trial_runs import TrialOutcome

# user attributes of trials
ERROR = "error"
INTERVALS = "intervals"  # half the 95% interval of each value
BOUNDED = "bounded"  # values of the metrics of constraints

_IDENTITY = "paretolab"  # user attribute of the study
_LEAST_FOR_IMPORTANCE = 10
_PROXY, _PORT = "grpc://", 13000
_PATIENCE = 60  # seconds to wait for a store that is busy
_BEATS = 6  # heartbeats within the time after which a silent trial is stale
_LOOK = 0.5  # seconds between looks at the trials of other processes
_MEANWHILE = 2.0  # seconds that another process may take to make the tables of a new store
_GRPC = "; for Optuna's gRPC proxy, `pip install grpcio protobuf`"
_DRIVERS = "; for PostgreSQL, `pip install 'paretolab[postgresql]'`, else the driver it names"


class SweepStudy:
    """A sweep's trials, by number from 0. Use :func:`open_study` to make one.

    Parameters
    ----------
    plan : SweepPlan
    study : optuna.Study
    storage : optuna.storages.BaseStorage
        The storage of the study.
    place : str
        Its address, for messages.
    """

    def __init__(
        self,
        plan: SweepPlan,
        study: optuna.Study,
        storage: optuna.storages.BaseStorage,
        place: str,
    ) -> None:
        self.plan, self.study, self._storage, self._place = plan, study, storage, place

    def trials(self) -> list[FrozenTrial]:
        """Return all trials, by number."""
        return self.study.get_trials(deepcopy=False)

    def complete(self) -> list[FrozenTrial]:
        """Return the trials that have values."""
        return self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))

    def pruned(self) -> list[FrozenTrial]:
        """Return the trials that were ended early."""
        return self.study.get_trials(deepcopy=False, states=(TrialState.PRUNED,))

    def limits(self, number: int) -> dict[int, float]:
        """Return the worst values with which a trial continues, by evaluations."""
        with damaged(self._place, "limits of pruning"):
            limits = self.trials()[number].user_attrs.get(LIMITS, {})
            return {int(step): float(value) for step, value in limits.items()}

    def unfinished(self) -> list[int]:
        """Return the numbers of the trials that have no outcome yet."""
        done = {trial.number for trial in self.trials() if trial.state.is_finished()}
        return [number for number in range(self.plan.sweep.trials) if number not in done]

    def ask(self, number: int) -> dict[str, Any]:
        """Return the values of keys of an unfinished trial, which are drawn if it has none."""
        trials = self.trials()
        if number < len(trials):
            trial = trials[number]
            if not self.plan.is_complete(trial.params):  # begun by :meth:`begin`, without values
                first = RetryHeartbeatStaleTrialCallback.retried_trial_number(trial)
                trial = self._drawn(trials[: number if first is None else first])
                self._fill(number, trial)
            return dict(trial.params)
        assert number == len(trials), "another process writes to this study"
        trial = self._drawn(trials)
        self.study.add_trial(trial)
        return dict(trial.params)

    def _drawn(self, before: Sequence[FrozenTrial]) -> FrozenTrial:
        """Return the trial after others, whose attributes a sampler may not be able to read."""
        with damaged(self._place, "the study of a sweep"):
            return draw_trial(self.plan, before)

    def tell(self, outcome: TrialOutcome) -> None:
        """Store the outcome of a trial."""
        trial_id = self._id(outcome.number)
        for step, value in sorted(outcome.rungs.items()):
            self._storage.set_trial_intermediate_value(trial_id, step, value)
        if outcome.error:
            self._storage.set_trial_user_attr(trial_id, ERROR, outcome.error)
            self.study.tell(outcome.number, state=TrialState.FAIL)
            return
        if outcome.pruned:
            self.study.tell(outcome.number, state=TrialState.PRUNED)
            return
        for key, by_metric in ((INTERVALS, outcome.intervals), (BOUNDED, outcome.bounded)):
            if by_metric:
                self._storage.set_trial_user_attr(trial_id, key, dict(by_metric))
        for name, violation in outcome.violations.items():  # as Trial.set_constraint stores it
            self._storage.set_trial_system_attr(trial_id, f"constraints:{name}", violation)
        self.study.tell(outcome.number, list(outcome.values.values()))

    def begin(self) -> int | None:
        """Begin a trial of a study that several processes share; return its number.

        Trials that Optuna has queued in place of stale ones come first. The result is None if all
        trials were begun and, if the storage supports heartbeats, those of other processes have
        ended.
        """
        while True:
            fail_stale_trials(self.study)
            trials = self.trials()
            queued = any(trial.state == TrialState.WAITING for trial in trials)
            begun = sum(
                RetryHeartbeatStaleTrialCallback.retried_trial_number(trial) is None
                for trial in trials
            )
            if queued or begun < self.plan.sweep.trials:
                return self.study.ask().number
            # a trial without values of keys may belong to a process that died without a heartbeat
            others = [
                trial
                for trial in trials
                if trial.state == TrialState.RUNNING and self.plan.is_complete(trial.params)
            ]
            if not others or not is_heartbeat_enabled(self._storage):
                return None
            time.sleep(_LOOK)

    @contextmanager
    def alive(self, number: int) -> Iterator[None]:
        """Record heartbeats of a trial within the block, if the storage supports them."""
        with get_heartbeat_thread(self._id(number), self._storage):
            yield

    def done(self) -> int:
        """Return how many trials have ended, not counting those that were tried again."""
        trials = self.trials()
        stale = retried(trials)
        return sum(t.state.is_finished() and t.number not in stale for t in trials)

    def _fill(self, number: int, drawn: FrozenTrial) -> None:
        """Store the drawn values in a trial that was begun without values."""
        trial_id = self._id(number)
        for key, attribute in drawn.user_attrs.items():
            self._storage.set_trial_user_attr(trial_id, key, attribute)
        for key, attribute in drawn.system_attrs.items():
            self._storage.set_trial_system_attr(trial_id, key, attribute)
        for key, distribution in drawn.distributions.items():
            value = distribution.to_internal_repr(drawn.params[key])
            self._storage.set_trial_param(trial_id, key, value, distribution)

    def _id(self, number: int) -> int:
        study_id = self._storage.get_study_id_from_name(self.study.study_name)
        return self._storage.get_trial_id_from_study_id_trial_number(study_id, number)


def retried(trials: Sequence[FrozenTrial]) -> set[int]:
    """Return the numbers of the trials that were replaced by others."""
    history = RetryHeartbeatStaleTrialCallback.retry_history
    return {number for trial in trials for number in history(trial)}


@contextmanager
def open_study(plan: SweepPlan, url: str, name: str, fingerprint: str) -> Iterator[SweepStudy]:
    """Open the study of a sweep, or make it; Optuna's log and warnings are off within the block.

    Parameters
    ----------
    plan : SweepPlan
    url : str
        Address of the database.
    name : str
        Name of the study in it.
    fingerprint : str
        That of the problem before keys are varied: it tells whether the data changed.

    Raises
    ------
    InputError
        The database cannot be used, or the study is that of another configuration or other data.
    """
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            storage = _storage(url, plan.sweep)
            try:
                with damaged(public_uri(url), "the study of a sweep"):
                    study = _open(plan, storage, name, public_uri(url), fingerprint)
                yield study
            except optuna.exceptions.OptunaError as error:
                raise ParetolabError(
                    f"{public_uri(url)}: cannot use the study ({redacted(str(error), url)}); "
                    "no outcome of a trial is lost, `paretolab resume` goes on"
                ) from error
            finally:
                storage.remove_session()
                if isinstance(storage, optuna.storages.RDBStorage):
                    storage.engine.dispose()
    finally:
        optuna.logging.set_verbosity(verbosity)


def _storage(url: str, sweep: SweepConfig) -> optuna.storages.BaseStorage:
    try:
        return _connected(expanded(url), sweep)
    except InputError:
        raise
    except Exception as error:  # drivers, which may be missing, have no common class of errors
        reason = redacted(first_line(error), url)
        if isinstance(error, ImportError):
            reason += _GRPC if url.startswith(_PROXY) else _DRIVERS
        raise InputError(
            f"sweep.storage: expected a database that can be used, found {public_uri(url)}: "
            f"{reason}"
        ) from error


def _connected(url: str, sweep: SweepConfig) -> optuna.storages.BaseStorage:
    if url.startswith(_PROXY):
        host, _, port = url.removeprefix(_PROXY).rstrip("/").partition(":")
        proxy = optuna.storages.GrpcStorageProxy(host=host, port=int(port or _PORT))
        proxy.wait_server_ready(timeout=_PATIENCE)
        return proxy
    patient: dict[str, Any] = {}
    beats: dict[str, Any] = {}
    if sweep.join:
        beats = {
            "heartbeat_interval": max(1, sweep.grace // _BEATS),
            "grace_period": sweep.grace,
            "heartbeat_stale_trial_callback": RetryHeartbeatStaleTrialCallback(),
        }
    if (file := sqlite_file(url)) is not None:
        check_database(file)
        patient = {"connect_args": {"timeout": _PATIENCE}}
    with suppress(sqlalchemy.exc.SQLAlchemyError):
        return optuna.storages.RDBStorage(url, engine_kwargs=patient, **beats)
    time.sleep(_MEANWHILE)  # another process may have been making the tables
    return optuna.storages.RDBStorage(url, engine_kwargs=patient, **beats)


def _open(
    plan: SweepPlan,
    storage: optuna.storages.BaseStorage,
    name: str,
    place: str,
    fingerprint: str,
) -> SweepStudy:
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        directions=directions(plan),
        sampler=optuna.samplers.RandomSampler(),  # not used: draw_trial has the sampler
        load_if_exists=True,
    )
    identity = json.loads(json.dumps(plan.identity() | {"problem.fingerprint": fingerprint}))
    stored = study.user_attrs.get(_IDENTITY)
    if stored is None:
        study.set_metric_names([direction.metric for direction in plan.sweep.directions])
        study.set_user_attr(_IDENTITY, identity)
    elif stored != identity:
        raise InputError(_difference(stored, identity))
    trials = study.get_trials(deepcopy=False)
    optuna.create_study(directions=directions(plan)).add_trials(trials)  # refuses forged ones
    if [trial.number for trial in trials] != [*range(len(trials))]:
        raise ValueError("trials are not numbered one after the other")
    for trial in trials:
        _check_attributes(plan, trial)
    return SweepStudy(plan, study, storage, place)


def _check_attributes(plan: SweepPlan, trial: FrozenTrial) -> None:
    """Raise ValueError if a trial does not have the attributes that :meth:`SweepStudy.tell` gives.

    TypeError is raised for constraints that Optuna has in its attributes and that are no numbers.
    """
    if trial.state == TrialState.WAITING and not plan.sweep.join:
        raise ValueError(f"trial {trial.number} waits for another process")
    violation(trial)
    directions_of = plan.sweep.directions if plan.sweep.repeats > 1 else ()
    metrics = {
        INTERVALS: [direction.metric for direction in directions_of],
        BOUNDED: [constraint.metric for constraint in plan.sweep.constraints],
    }
    complete = trial.state == TrialState.COMPLETE
    for key, names in metrics.items():
        by_metric = trial.user_attrs.get(key, {})
        if not isinstance(by_metric, dict) or (complete and not {*names} <= by_metric.keys()):
            raise ValueError(f"{key} of trial {trial.number}")
        if not all(isinstance(value, int | float) for value in by_metric.values()):
            raise ValueError(f"{key} of trial {trial.number}")


def violation(trial: FrozenTrial) -> float:
    """Return by how much a trial breaks its constraints, summed; 0 if it keeps them."""
    return float(sum(max(value, 0.0) for value in trial.constraints.values()))


def _difference(stored: Mapping[str, Any], identity: Mapping[str, Any]) -> str:
    keys = sorted(k for k in {*stored, *identity} if stored.get(k) != identity.get(k))
    shown = "; ".join(
        f"{key} is {stored.get(key, 'absent')!r} there and {identity.get(key, 'absent')!r} here"
        for key in keys
    )
    return (
        f"expected the sweep of this configuration and these data, found another's: {shown}; only "
        "sweep.trials, choose and tolerance can be changed, start a new sweep for the rest"
    )


def importances(study: SweepStudy) -> dict[str, dict[str, float]]:
    """Return for each direction how important each key is, as shares that sum to 1.

    There are none if there are too few trials, or all trials have the same value.

    Notes
    -----
    PED-ANOVA (Watanabe, Bansal and Hutter 2023) of the best tenth of the trials, or of the best
    five if there are fewer than fifty.
    """
    complete = study.complete()
    if len(complete) < _LEAST_FOR_IMPORTANCE:
        return {}
    quantile = max(0.1, 5 / len(complete))
    evaluator = PedAnovaImportanceEvaluator(target_quantile=quantile)
    by_metric: dict[str, dict[str, float]] = {}
    for i, direction in enumerate(study.plan.sweep.directions):
        if len({trial.values[i] for trial in complete}) > 1:
            shares = get_param_importances(
                study.study, evaluator=evaluator, target=partial(_loss, i, direction.sense)
            )
            by_metric[direction.metric] = {key: round(share, 6) for key, share in shares.items()}
    return by_metric


def _loss(i: int, sense: Sense, trial: FrozenTrial) -> float:
    value = float(trial.values[i])
    return value if sense == "min" else -value
