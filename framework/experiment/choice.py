"""A choice from a front, with the rules of ``paretolab choose``, for the command and for Python.

With other prices of features, costs of errors or shares of classes than in the search, the designs
that were evaluated have other metrics and so another front; then the choice is from that one.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from framework.analysis.choose import Condition, ExpectedCost, Margin, choose, with_trivial
from framework.analysis.expectations import Expectation
from framework.arrays import Array
from framework.capabilities import TrivialClassifier
from framework.errors import InputError, ParetolabError
from framework.experiment.config import check
from framework.experiment.expected import (
    Evidence,
    Sure,
    beside_of,
    evidence,
    expectation,
    scored_again,
    sure_front,
    tightened,
)
from framework.experiment.export import constant, load_problem
from framework.experiment.options import ProblemOptions
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem
from framework.front import Front, Promise
from framework.problem import Problem
from framework.registry import require_known
from framework.roles import Roles
from framework.security import say

_ERRORS_OF_TWO = {"fp", "fn"}
_SECONDS = 600.0  # of training components again that decide by the costs of errors


@dataclass(frozen=True)
class Rescoring:
    """What all designs are scored again with; None is as in the search.

    Attributes
    ----------
    prices : mapping of str to float, or None
        Prices of features, by name. In searches over models: of models, or by cost and model.
    errors, shares : mapping of str to float, or None
        Costs of errors by true class; shares of the classes.
    """

    prices: Mapping[str, Any] | None = None
    errors: Mapping[str, float] | None = None
    shares: Mapping[str, float] | None = None

    @property
    def words(self) -> dict[str, Mapping[str, Any]]:
        """What differs from the search, by the argument of ``choose`` that says so."""
        values = {"prices": self.prices, "costs": self.errors, "prior": self.shares}
        return {word: value for word, value in values.items() if value is not None}


def costs_asked_for(
    costs: Mapping[str, float] | None = None,
    prior: float | Mapping[str, float] | None = None,
    per_unit: Mapping[str, float] | None = None,
    prices: Mapping[str, Any] | None = None,
    usual_prior: Callable[[], float | None] = lambda: None,
) -> tuple[Rescoring, ExpectedCost | None]:
    """Return what all designs are scored again with, and the rule of costs, if there is one.

    Costs have two forms. ``fp`` and ``fn``, of false positives and negatives, are a rule: the least
    expected cost (:class:`~framework.analysis.choose.ExpectedCost`), where ``prior`` is the share
    of positive records to come. Costs by true class change the metrics of all designs, as
    ``prices`` do, and a ``prior`` with the share of each class.

    Parameters
    ----------
    costs, prior, per_unit, prices
        As above, or None.
    usual_prior : callable, optional
        Returns the share of positive records to take if ``prior`` is None; None if unknown.

    Raises
    ------
    InputError
        They do not go together, or one is not a number.
    """
    by_name = _numbers(costs, "costs")
    if by_name is not None and set(by_name) & _ERRORS_OF_TWO:
        return Rescoring(prices), _cost_of_two_classes(by_name, prior, per_unit, usual_prior)
    if by_name is None and not (per_unit is None and (prior is None or isinstance(prior, Mapping))):
        raise InputError(
            "prior and per_unit: expected with costs, found alone; a prior of each class needs none"
        )
    if per_unit is not None:
        raise InputError("per_unit: expected with costs fp and fn, found others")
    if prior is not None and not isinstance(prior, Mapping):
        raise InputError(
            "prior: expected a share of each class, CLASS=SHARE,..., with costs by class, "
            f"found {prior:g}"
        )
    return Rescoring(prices, errors=by_name, shares=_numbers(prior, "prior")), None


def _cost_of_two_classes(
    costs: Mapping[str, float],
    prior: float | Mapping[str, float] | None,
    per_unit: Mapping[str, float] | None,
    usual_prior: Callable[[], float | None],
) -> ExpectedCost:
    if set(costs) != _ERRORS_OF_TWO:
        raise InputError(f"costs: expected fp and fn, or costs by class, found {', '.join(costs)}")
    if isinstance(prior, Mapping):
        raise InputError(
            "prior: expected one number, the share of positive records, with fp and fn, found "
            + ", ".join(f"{name}={share}" for name, share in prior.items())
        )
    share = usual_prior() if prior is None else prior
    if share is None:
        raise InputError("prior: expected the share of positive records (--prior), found none")
    if not 0 < share < 1:
        raise InputError(
            f"prior: expected a share above 0 and below 1, found {share:g}; where one class "
            "never occurs, always say the other"
        )
    return ExpectedCost(costs["fp"], costs["fn"], share, _numbers(per_unit, "per_unit") or {})


def _numbers(values: Mapping[Any, float] | None, word: str) -> dict[str, float] | None:
    """Return numbers by the texts of their names; None for None."""
    if values is None:
        return None
    try:
        return {str(name): float(value) for name, value in values.items()}
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"{word}: expected numbers by name, found {values!r}") from None


class Source(ABC):
    """A front with its problem and what resamples tell, both made when they are first needed."""

    front: Front
    """As it was searched."""
    seed: int

    def __init__(self) -> None:
        self.usual_prior: Callable[[], float | None] = lambda: None
        self._rescoring = Rescoring()
        self._repriced: Problem | None = None
        self._rescored: Front | None = None
        self._evidence_made = False
        self._evidence_held: Evidence | None = None

    @abstractmethod
    def base(self) -> Problem:
        """Return the problem as it was searched."""

    @abstractmethod
    def _changed(
        self, prices: Mapping[str, Any] | None, errors: Mapping[str, float] | None
    ) -> Problem:
        """Return the problem with other prices or costs of errors, and the same genomes."""

    @abstractmethod
    def _roles(self, problem: Problem) -> Roles:
        """Return the roles that the search gives the metrics of a problem."""

    @abstractmethod
    def _evidence(self, problem: Problem, **more: Any) -> Evidence | None:
        """Return what resamples tell of all designs, as a problem scores them.

        ``more`` are the arguments ``shares`` and ``seconds`` of
        :func:`~framework.experiment.expected.evidence`.
        """

    def trivial(self) -> Sequence[TrivialClassifier]:
        """Return the trivial classifiers, which need no model."""
        return self.problem().trivial_classifiers()

    def problem(self) -> Problem:
        """Return the problem, with the prices and costs of :meth:`rescored`."""
        return self.base() if self._repriced is None else self._repriced

    def rescored(self, rescoring: Rescoring) -> Front:
        """Score all designs again with other prices, costs or shares, and return their front.

        With none of them it is the front as it was searched.

        Raises
        ------
        InputError
            The problem has nothing that they could change, or it would take long to train
            components again.
        """
        prices, errors = rescoring.prices, rescoring.errors
        if rescoring != self._rescoring:
            same = prices is None and errors is None
            self._repriced = None if same else self._changed(prices, errors)
            self._rescoring, self._rescored, self._evidence_made = rescoring, None, False
        if not rescoring.words:
            return self.front
        if self._rescored is None:
            resampled, problem = self.needed(next(iter(rescoring.words))), self.problem()
            roles, tested = self._roles(problem), rescoring.shares is None
            self._rescored = scored_again(resampled, problem, roles, self.seed, tested=tested)
        return self._rescored

    def evidence(self) -> Evidence | None:
        """Return what resamples tell; None where the problem has no outcomes."""
        if not self._evidence_made:
            more: dict[str, Any] = {"shares": self._rescoring.shares}
            if self._rescoring.errors is not None:  # other costs need other components
                more["seconds"] = _SECONDS
            self._evidence_held = self._evidence(self.problem(), **more)
            self._evidence_made = True
        return self._evidence_held

    def needed(self, word: str) -> Evidence:
        """Return what resamples tell; refuse ``word``, which needs it, if there are no outcomes."""
        resampled = self.evidence()
        if resampled is None:
            raise InputError(
                f"{word}: expected metrics that follow from what each record contributes, found "
                f"{', '.join(self.problem().metric_names)}, of which this is not known"
            )
        return resampled


class RunSource(Source):
    """The front of a run."""

    def __init__(self, run_dir: RunDir) -> None:
        super().__init__()
        self._run_dir, self._config = run_dir, run_dir.config()
        self.front, self.seed = run_dir.front(), self._config.seed
        self._loaded: Problem | None = None

    def base(self) -> Problem:
        if self._loaded is None:
            self._loaded = load_problem(self._run_dir)
        return self._loaded

    def _changed(
        self, prices: Mapping[str, Any] | None, errors: Mapping[str, float] | None
    ) -> Problem:
        problem, section = self.base(), self._config.problem.model_dump(mode="json")
        if prices is not None:
            section = problem.with_prices(section, prices)
        if errors is not None:
            section = problem.with_errors(section, errors)
        options = check(ProblemOptions, section, "problem")
        return make_problem(self._config.model_copy(update={"problem": options}))

    def _roles(self, problem: Problem) -> Roles:
        return self._config.roles(problem)

    def _evidence(self, problem: Problem, **more: Any) -> Evidence | None:
        beside = None
        if self._rescoring.errors is None:  # else they would need yet more components
            beside = beside_of(self._config.algorithm, self.front, self.base(), self.seed)
        with self._run_dir.journal() as journal:
            return evidence(journal.evaluations(), problem, self.seed, beside, **more)

    def trivial(self) -> Sequence[TrivialClassifier]:
        """Return the trivial classifiers; none, with a message, if the data cannot be loaded."""
        try:
            return super().trivial()
        except ParetolabError as error:
            say(f"classifiers that always give one label are not looked at: {error}", sys.stderr)
            return ()


class Pick(NamedTuple):
    """What a rule picked.

    Attributes
    ----------
    front : Front
        As it was searched, or scored again.
    candidates : Front
        The front, with trivial classifiers behind it if there are costs ``fp`` and ``fn``.
    trivial : sequence of TrivialClassifier
        These classifiers.
    position : int
        Position of what was picked among ``candidates``.
    plain : int
        Position of what the rule picks without ``sure``.
    rule : mapping
        Arguments of :class:`framework.analysis.choose.Rule`.
    sure : Sure or None
    expected : ExpectedCost or None
        The rule of costs ``fp`` and ``fn``.
    """

    front: Front
    candidates: Front
    trivial: Sequence[TrivialClassifier]
    position: int
    plain: int
    rule: Mapping[str, Any]
    sure: Sure | None
    expected: ExpectedCost | None

    @property
    def id(self) -> int:
        """Id of the solution that was picked; below 0 for a trivial classifier."""
        return int(self.candidates.ids[self.position])

    @property
    def always(self) -> TrivialClassifier | None:
        """The trivial classifier that was picked; None where a solution was."""
        return self.trivial[-1 - self.id] if self.position >= len(self.front) else None

    def expectation(self, resampled: Evidence) -> Expectation:
        """Return what to expect of the solution that was picked on new records.

        Raises
        ------
        InputError
            A trivial classifier was picked, or the rule picks no solution in any resample.
        """
        if self.always is not None:
            raise InputError(
                "expected: expected costs at which a solution pays, found that one class always "
                "answered costs less; choose(...) returns that"
            )
        return expectation(resampled, self.front, self.position, **self.rule)


def pick(
    source: Source,
    *,
    where: Sequence[str | Condition] = (),
    within: Sequence[str | Margin] = (),
    best: str | None = None,
    knee: bool = False,
    weights: Mapping[str, float] | None = None,
    id: int | None = None,
    sure: float | None = None,
    costs: Mapping[str, float] | None = None,
    prior: float | Mapping[str, float] | None = None,
    per_unit: Mapping[str, float] | None = None,
    prices: Mapping[str, Any] | None = None,
    usual: Callable[[Front], int] | None = None,
) -> Pick:
    """Return what a rule picks of a front.

    Parameters
    ----------
    source : Source
    where, within, best, knee, weights, id
        See :func:`framework.analysis.choose.choose`.
    sure : float, optional
        A percentage: how surely the conditions have to hold on new records. See
        :func:`~framework.experiment.expected.sure_front`.
    costs, prior, per_unit, prices
        See :func:`costs_asked_for`. With costs by class and no other rule, their metric decides.
    usual : callable, optional
        Picks from the front if there is no rule; by default, the solution nearest to the ideal.

    Raises
    ------
    InputError
        No solution meets the conditions, or arguments cannot be used or do not go together.
    """
    rescoring, expected = costs_asked_for(costs, prior, per_unit, prices, source.usual_prior)
    front = source.rescored(rescoring)
    ruled = knee or any(rule is not None for rule in (best, weights, id))
    if rescoring.errors is not None and not ruled:
        metrics = front.roles.metrics
        best = next(name for name in source.problem().costs_of_errors if name in metrics)
    any_rule = ruled or any(rule is not None for rule in (best, sure, expected))
    trivial = () if expected is None else source.trivial()
    candidates = with_trivial(front, trivial)
    rule: dict[str, Any] = {"where": where, "within": within, "best": best, "weights": weights}
    rule["expected"] = expected
    wish: dict[str, Any] = {**rule, "knee": knee, "id": id}
    surest = None
    if sure is not None:
        surest = sure_front(source.needed("sure"), front, where, sure)
        rule["where"] = tightened(surest, where)
    plain = position = choose(candidates, **wish) if any_rule or usual is None else usual(front)
    if surest is not None and plain < len(front):  # otherwise a trivial classifier costs less
        chosen = surest.front.ids[choose(surest.front, **wish)]
        position = int(np.searchsorted(front.ids, chosen))
    return Pick(front, candidates, trivial, position, plain, rule, surest, expected)


class Chooser(ABC):
    """Has a front, of which solutions are picked in the words of ``paretolab choose``."""

    def choose(
        self,
        where: str | Sequence[str] = (),
        best: str | None = None,
        *,
        sure: float | None = None,
        costs: Mapping[str, float] | None = None,
        prior: float | Mapping[str, float] | None = None,
        per_unit: Mapping[str, float] | None = None,
        prices: Mapping[str, Any] | None = None,
        **rule: Any,
    ) -> Any:
        """Return one solution of the front as a model, fitted and ready to predict.

        The options are those of ``paretolab choose``. Nothing is searched again; where options
        change costs, prices or shares of classes, all candidates evaluated are scored again and
        have a new front. The data of a run are loaded again on the first call, and the solution
        that it has chosen stays the same.

        Parameters
        ----------
        where : str or sequence of str
            Conditions on metrics that the solution meets, such as ``cost<=50``.
        best : str, optional
            The metric in which the solution is the best.
        sure : float, optional
            The percentage of resamples of the records in which all conditions must hold together.
        costs : mapping of str to float, optional
            Either ``fp`` and ``fn``, what a false positive and a false negative cost: picks the
            solution of least expected cost, or a model that always answers one class if that costs
            less. Or what errors cost by true class (1 for classes that are left out): candidates
            are scored again, and decide anew where they decide by costs; without another rule, the
            least total or error cost picks.
        prior : float or mapping of str to float, optional
            With ``fp`` and ``fn``, the share of positive records where the model will run.
            Otherwise the share of each class, with which candidates are scored again.
        per_unit : mapping of str to float, optional
            With ``fp`` and ``fn``, the cost of a unit of other metrics.
        prices : mapping of str to float, optional
            Other prices of features or models, with which candidates are scored again.
        **rule
            Other rules of :func:`framework.analysis.choose.choose`: ``within``, ``knee``,
            ``weights``, ``id``. Without any rule, the solution nearest to the ideal point.

        Returns
        -------
        estimator
            A fitted model with the interface of scikit-learn;
            :func:`framework.models.store.save_model` writes it.

        Raises
        ------
        InputError
            No solution meets the conditions, a metric is unknown, options exclude each other, the
            data have changed since the run, or there are no models.
        """
        rule |= {"sure": sure, "costs": costs, "prior": prior, "per_unit": per_unit}
        return self._made(*self._picked(where, best, prices=prices, **rule))

    def expected(
        self, where: str | Sequence[str] = (), best: str | None = None, **rule: Any
    ) -> dict[str, Promise]:
        """Return what to expect on new records of the solution that a rule picks.

        The rule is applied in each resample of the records, as ``paretolab choose`` does. With
        ``id=`` alone the figures are those of the front.

        Parameters
        ----------
        where, best, **rule
            As in :meth:`choose`.

        Returns
        -------
        mapping of str to Promise
            For each metric ``claimed``, ``expected``, and ``low`` and ``high``, a 95% range.

        Raises
        ------
        InputError
            As in :meth:`choose`; or metrics are not computed from records, or always answering one
            class costs less than any solution.
        """
        source, pick = self._picked(where, best, **rule)
        if set(rule) == {"id"}:
            return self._with_expected().promises(pick.position)
        return dict(pick.expectation(source.needed("expected")).of)

    @abstractmethod
    def _source(self) -> Source:
        """Return the front to choose from."""

    @abstractmethod
    def _with_expected(self) -> Front:
        """Return the front, with what to expect of each solution if that is known."""

    @abstractmethod
    def _model_of(self, genome: Array, problem: Any) -> Any:
        """Return the fitted model that a genome, shape (d,), of a problem stands for."""

    def _picked(
        self, where: str | Sequence[str] = (), best: str | None = None, **words: Any
    ) -> tuple[Source, Pick]:
        """Return what a rule picks; the arguments are those of :meth:`choose`."""
        source = self._source()
        rules = [name for name in signature(pick).parameters if name not in ("source", "usual")]
        require_known(words, rules, f"choose: expected words among {', '.join(rules)};")
        words["within"] = listed(words.get("within"))
        return source, pick(source, where=listed(where), best=best, **words)

    def _made(self, source: Source, pick: Pick) -> Any:
        """Return the model of what was picked."""
        if pick.always is not None:
            return constant(pick.always)
        problem = source.problem()
        return self._model_of(pick.front.X[pick.position].astype(problem.space.dtype), problem)


def listed(words: str | Sequence[str] | None) -> list[str]:
    """Return one word, several or none as a list."""
    return [words] if isinstance(words, str) else list(words or ())
