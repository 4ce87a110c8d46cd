"""The next trial of a sweep, drawn from its number and the trials before it.

Optuna's samplers store their state in the study, and each value as soon as it is drawn. Here they
do so in a study in memory that is made for one trial. So the values depend only on the seed, the
number and the trials before, not on which process asks or where a process was stopped.

Likewise, the limits of pruning (``sweep.prune``) are computed when a trial is asked for, from the
trials told before, and stored with it in the study. So a trial is pruned at the same point whatever
process runs it, however often it is stopped, and however fast other trials are. Optuna's pruners
decide while a trial runs, from what the others have reached at that time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import (
    BaseSampler,
    GPSampler,
    GridSampler,
    NSGAIISampler,
    RandomSampler,
    TPESampler,
)
from optuna.trial import FrozenTrial, TrialState, create_trial
from scipy.stats import qmc

from framework.roles import Sense
from tracking.sweep.config import PruneConfig, SweepPlan

LIMITS = "limits"  # user attribute of a trial that may be pruned

_LEAST_POPULATION = 10  # of NSGA-II


def draw_trial(plan: SweepPlan, before: Sequence[FrozenTrial]) -> FrozenTrial:
    """Return the next trial, with its values, the state of its sampler and its limits of pruning.

    The first trials have the values of :meth:`SweepPlan.first`. All earlier trials are copied.

    Parameters
    ----------
    plan : SweepPlan
    before : sequence of FrozenTrial
        All earlier trials by number, ended or under way.
    """
    number = len(before)
    study = optuna.create_study(directions=directions(plan), sampler=_sampler(plan, number))
    study.add_trials(before)
    first = plan.first()
    if number < len(first):
        study.enqueue_trial(first[number])
    _suggest(plan, study.ask())
    drawn = study.get_trials(deepcopy=False)[number]
    prune, sense = plan.sweep.prune, plan.sweep.directions[0].sense
    return create_trial(
        state=TrialState.RUNNING,
        params=drawn.params,
        distributions=drawn.distributions,
        system_attrs=drawn.system_attrs,
        user_attrs={} if prune is None else {LIMITS: pruning_limits(prune, sense, before)},
    )


def directions(plan: SweepPlan) -> list[Literal["minimize", "maximize"]]:
    """Return the directions of a sweep for Optuna."""
    return ["minimize" if d.sense == "min" else "maximize" for d in plan.sweep.directions]


def _suggest(plan: SweepPlan, trial: optuna.Trial) -> None:
    """Make the sampler draw a value for each key whose condition the values so far fulfil."""
    for key, dimension in plan.space.items():
        if not dimension.holds(trial.params):
            continue
        low, high = dimension.low, dimension.high
        if low is None or high is None:
            trial.suggest_categorical(key, dimension.choices or ())
        elif dimension.whole:
            trial.suggest_int(key, int(low), int(high), log=dimension.log)
        else:
            trial.suggest_float(key, low, high, log=dimension.log)


def _sampler(plan: SweepPlan, number: int) -> BaseSampler:
    """Return the sampler of a trial, with the trial's own random stream."""
    sweep = plan.sweep
    seed = int(np.random.SeedSequence(sweep.seed, spawn_key=(number,)).generate_state(1)[0])
    if sweep.sampler == "random":
        return RandomSampler(seed=seed)
    if sweep.sampler == "nsga2":
        return NSGAIISampler(population_size=max(sweep.batch, _LEAST_POPULATION), seed=seed)
    if sweep.sampler == "grid":  # all trials need the same seed, by which the grid is shuffled
        choices = {key: dimension.choices or [] for key, dimension in plan.space.items()}
        return GridSampler(choices, seed=sweep.seed)
    if sweep.sampler == "gp":
        return GPSampler(seed=seed)
    if sweep.sampler == "qmc":
        return SobolPoint(list(plan.space), sweep.seed, number)
    return TPESampler(seed=seed)


class SobolPoint(RandomSampler):
    """One point of a scrambled Sobol sequence.

    Optuna's sampler of the sequence counts points in the study, so that the points shift if there
    are two processes or one is stopped; it also draws its first trials at random.

    Parameters
    ----------
    keys : sequence of str
        In the order of the dimensions of the sequence.
    seed : int
        Seed of the scrambling, the same for all points.
    number : int
        Number of the point, from 0.
    """

    def __init__(self, keys: Sequence[str], seed: int, number: int) -> None:
        super().__init__(seed=seed)
        engine = qmc.Sobol(len(keys), rng=np.random.default_rng(seed))
        if number:  # the engine does not accept 0
            engine.fast_forward(number)
        self._point = dict(zip(keys, engine.random(1)[0].tolist(), strict=True))

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return the value of a key at the point."""
        return _value_at(self._point[param_name], param_distribution)


def _value_at(u: float, distribution: BaseDistribution) -> Any:
    """Return the quantile of a distribution at ``u``, 0 <= u < 1."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[int(u * len(distribution.choices))]
    assert isinstance(distribution, IntDistribution | FloatDistribution)
    low, high = float(distribution.low), float(distribution.high)
    if isinstance(distribution, IntDistribution):  # each whole number has an interval of width 1
        low, high = low - 0.5, high + 0.5
    if distribution.log:
        value = math.exp(math.log(low) + u * (math.log(high) - math.log(low)))
    else:
        value = low + u * (high - low)
    value = min(max(value, distribution.low), distribution.high)
    return round(value) if isinstance(distribution, IntDistribution) else value


def pruning_limits(
    prune: PruneConfig, sense: Sense, before: Sequence[FrozenTrial]
) -> dict[int, float]:
    """Return the limits of the next trial: the worst value that is not pruned, by evaluations.

    Parameters
    ----------
    prune : PruneConfig
    sense : {'min', 'max'}
    before : sequence of FrozenTrial
        All earlier trials by number; those under way do not count.
    """
    ended = [t for t in before if t.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    if prune.kind == "median":
        ended = [trial for trial in ended if trial.state == TrialState.COMPLETE]
        if len(ended) < (prune.startup or 5):
            return {}
        steps = prune.at
    else:
        brackets = len(prune.at) + 1
        bracket = len(before) % brackets
        ended = [trial for trial in ended if trial.number % brackets == bracket]
        steps = prune.at[bracket:]
    limits: dict[int, float] = {}
    for step in steps:
        values = sorted(t.intermediate_values[step] for t in ended if step in t.intermediate_values)
        if not values:
            continue
        if prune.kind == "median":
            limits[step] = float(np.median(values))
        else:  # the best 1/eta continue, of the earlier trials and the next one together
            continuing = max(1, (len(values) + 1) // (prune.eta or 3))
            best_first = values[::-1] if sense == "max" else values
            limits[step] = best_first[min(continuing, len(values)) - 1]
    return limits
