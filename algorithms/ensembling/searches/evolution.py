"""HAPEns, QDO-ES, QO-ES and Pareto-ES: one evolutionary search with different archives.

Batches of children of the elites are evaluated. The probabilities of random parents, of crossover
and of mutation after crossover adapt to which of them gives better children.
"""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from algorithms.ensembling.searches import children
from algorithms.ensembling.searches.archives import (
    BestArchive,
    EliteArchive,
    FrontArchive,
    SlidingArchive,
)
from algorithms.ensembling.searches.base import CountsSearch
from algorithms.ensembling.searches.children import BEST, CROSSED, MUTATED, RANDOM, Store
from algorithms.moves.seen import Seen
from framework.algorithm import MaxPending, Outcome, name_of
from framework.arrays import Array, FloatArray, IntArray
from framework.batch import Evaluated
from framework.errors import InputError
from framework.problem import Problem
from framework.roles import Roles

_METHODS = {
    "dynamic": children.DYNAMIC,
    "deterministic": children.DETERMINISTIC,
    "tournament": children.TOURNAMENT,
}


class EnsembleEvolution(CountsSearch):
    """Evolve count vectors with an archive of elites, two-point crossover and mutation by one pick.

    1. Every model alone is evaluated. Only the archive of ``pareto_es`` contains these rows.
    2. The start population is evaluated: disjoint random pairs.
    3. Batches of children of the elites are evaluated. With one probability a child has two
       parents, which are crossed; otherwise it has one, which is mutated. With a second
       probability a crossed child is mutated, too. With a third one a parent is a random elite;
       otherwise it is the best one. The three probabilities adapt to what gives better children
       (:class:`OperatorProbabilities`). An ensemble that was proposed before is rejected, and
       another one is made. After ``retries`` rejections of mutants, mutation adds one more pick;
       after as many rejections of crossed children, all of them are mutated; both until the end of
       the batch.

    Parameters
    ----------
    behavior : pair of str, optional
        The two metrics that define the niches, which must have bounds; those of the method if None.
    cells : int
        Number of cells of the archive along each behaviour. Without niches, the number of elites is
        its square. The paper has 7 and leaves open what another number does.
    batch : int
        Number of children made from one state of the archive.
    max_pending : int, optional
        Number of candidates that may be pending while the search goes on; it waits for each batch
        if None. Children are then made in smaller steps
        (:meth:`~framework.algorithm.Algorithm.make_asynchronous`), the first of them when the start
        population is evaluated.
    start : {'pairs', 'singles', 'best_pairs'}
        Disjoint random pairs, all single models, or the best single model with each other one.
    parents : {'dynamic', 'deterministic', 'tournament'}
        Which members are parents: those that did well (``dynamic``); always the best (two); or
        the winners among ten random elites for each parent, with chances in proportion to 0.2^rank.
    crossover : {'two_point', 'average'}
        Two-point crossover on the members of either parent, replaced by the average of the counts,
        rounded up, if there are fewer than three members or a child is empty; or always the
        average, which the HAPEns authors' code ran.
    adjust_every : int
        Batches between two adjustments of the probabilities. The paper has "every ten
        iterations"; 1 is the authors' code.
    retries : int
        Rejections after which mutation adds more, or all crossed children are mutated.
    count_retries : {'child', 'batch'}
        The paper allows ``retries`` for each ensemble; the authors' code counts over a batch.
    credit : {'parent', 'child'}
        What the probability of a random parent follows. The paper says "which approach yields
        better results" and leaves open how to count a cross of a random parent and the best one.
        ``'parent'``: each parent counts, so such a cross counts for both approaches;
        ``'child'``: it counts for neither, and any other child once (the authors' code).
    problem, roles, **options
        As for :class:`~.base.CountsSearch`. Infeasible rows rank below all feasible ones, in the
        archive, too.

    Raises
    ------
    InputError
        The problem has another space, or the fitness or a behaviour cannot be used.

    Notes
    -----
    - The model that mutation picks is uniform over all models (paper). The authors' code draws
      without replacement for each vector; after rejection the children have the same distribution.
    - A child that two-point crossover leaves empty is replaced by the average (paper); the
      authors' code drops it.
    - Mutants with a count above the greatest one of the space are rejected. If a batch finds no
      new ensemble, it is repeated with random parents. If that finds none either, the run ends;
      only ``pareto_es`` goes on with the best rows of all.
    - Failed rows affect neither the archive nor the probabilities.
    - ``outcome().returned`` has the ids of the feasible elites, which the method returns according
      to the paper. The run's front, over everything evaluated, is at least as good. A last batch
      that the budget cuts short is never learned from, so that its rows never become elites.

    A batch costs O(members) for each child, O(batch d) to write it out, O(log n) in the archive.
    """

    niches: ClassVar[tuple[str, str] | None]
    """The behaviours that the method prescribes; None if it has no niches."""

    with_singles: ClassVar[bool] = False
    """Whether the archive gets the single models with any ``start``."""

    def __init__(
        self,
        problem: Problem,
        roles: Roles,
        *,
        behavior: tuple[str, str] | None = None,
        cells: Annotated[int, Field(ge=1, le=1000)] = 7,
        batch: Annotated[int, Field(ge=1)] = 40,
        start: Literal["pairs", "singles", "best_pairs"] = "pairs",
        parents: Literal["dynamic", "deterministic", "tournament"] = "dynamic",
        crossover: Literal["two_point", "average"] = "two_point",
        adjust_every: Annotated[int, Field(ge=1)] = 10,
        retries: Annotated[int, Field(ge=1)] = 50,
        count_retries: Literal["child", "batch"] = "child",
        credit: Literal["parent", "child"] = "parent",
        max_pending: MaxPending = None,
        **options: Any,
    ) -> None:
        super().__init__(problem, roles, **options)
        self._step = batch if max_pending is None else self.make_asynchronous(max_pending, batch)
        self.batch, self.start, self.retries = batch, start, retries
        self._method, self._average = _METHODS[parents], crossover == "average"
        self._whole_batch = count_retries == "batch"
        self._rates = OperatorProbabilities(adjust_every, by_child=credit == "child")
        self._seen, self._store = Seen(), Store()
        self._ids: list[IntArray] = []
        self._starters: IntArray = np.zeros((1, 1), dtype=np.int64)
        self._best_single = 0
        self._best_id: list[int] = []
        self._stage = 0  # batches proposed: first the singles, second the start population
        self._learned = 0  # batches learned from
        self._pending_marks: deque[IntArray | None] = deque()  # for each pending batch of children
        self._credits: list[tuple[IntArray, FloatArray]] = []  # marks and losses, below a batch
        self._credited = 0  # children that these are of
        if self.niches is None and behavior is not None:
            raise InputError(
                f"algorithm.behavior: expected none, since {name_of(type(self))} has no niches"
            )
        self._behavior, self._cells = behavior or self.niches, cells
        self._archive = self._new_archive()

    def propose(self) -> Array | None:
        if self._learned < self._stage <= 2:
            return None  # the parents are not evaluated yet
        self._stage += 1
        if self._stage == 1:
            return self._proposed(self.singles())
        if self._stage == 2:
            X = self._start_population()
            if len(X):
                return self._proposed(X)
        return self._children()

    def learn(self, batch: Evaluated) -> None:
        ok, marks = batch.ok, self._pending_marks.popleft()
        self._learned += 1
        rows = batch if not batch.errors else batch.take(ok)
        loss, violation = self.loss(rows), self.roles.violation(rows.values)
        if self._learned == 1:
            if len(rows):
                at = np.lexsort((loss, violation))[0]
                self._best_single = int(np.argmax(rows.X[at]))
                self._best_id = rows.ids[[at]][violation[[at]] == 0.0].tolist()
            if self.start != "singles" and not self.with_singles:
                return
        if marks is not None:
            self._credit(marks[ok], loss, len(batch))
        self._store.add(rows.X)
        self._ids.append(rows.ids)
        self._keep(rows, violation, loss)

    def _credit(self, marks: IntArray, loss: FloatArray, proposed: int) -> None:
        """Credit the operators that made children, one batch at a time."""
        self._credits.append((marks, loss))
        self._credited += proposed
        if self._step == self.batch or self._credited >= self.batch:
            self._rates.learn(
                *(np.concatenate(column) for column in zip(*self._credits, strict=True))
            )
            self._credits, self._credited = [], 0

    def outcome(self) -> Outcome:
        """Return the ids of the feasible elites, ascending; at first that of the best model."""
        if not len(self._archive):
            return Outcome(returned=np.array(self._best_id, dtype=np.int64))
        elites = self._archive.feasible()
        return Outcome(returned=np.sort(np.concatenate(self._ids)[elites]))

    def _keep(self, rows: Evaluated, violation: FloatArray, loss: FloatArray) -> None:
        self._archive.add(self._descriptors(rows), violation, loss)

    def _new_archive(self) -> EliteArchive:
        """Return an empty archive."""
        if self._behavior is None:
            return BestArchive(self._cells**2)
        self._signs = np.array([self.sign_of(name, "behavior") for name in self._behavior])
        metrics = [self.roles.metrics[name] for name in self._behavior]
        for metric in metrics:
            if not np.isfinite([metric.low, metric.high]).all():
                raise InputError(
                    f"algorithm.behavior: expected bounded metrics, found {metric.name!r}"
                )
        bounds = np.array([[metric.low, metric.high] for metric in metrics])
        low, high = np.sort(bounds * self._signs[:, np.newaxis], axis=1).T
        d = self.space.d
        return SlidingArchive(low, high, first=d + self.batch, every=d, cells=self._cells)

    def _reserve(self) -> IntArray | None:
        """Return rows to breed from if the elites have no new children, best first."""
        return None

    def _descriptors(self, rows: Evaluated) -> FloatArray:
        """Return the behaviours, signed so that smaller is better, shape (n, 2)."""
        if self._behavior is None:
            return np.zeros((len(rows), 2))
        columns = np.column_stack([rows.values[name] for name in self._behavior])
        return np.asarray(columns * self._signs + 0.0)

    def _proposed(self, X: Array) -> Array:
        children.add_shares(self._seen.reserve(len(X)), X)
        self._seen.added(len(X))
        self._pending_marks.append(None)
        return X

    def _start_population(self) -> Array:
        """Return the start population, shape (n, d); it is empty if the singles are it."""
        d = self.space.d
        if self.start == "pairs":
            members = self.rng.permutation(d)[: d // 2 * 2].reshape(-1, 2)
        elif self.start == "best_pairs":
            others = np.delete(np.arange(d), self._best_single)
            members = np.column_stack([np.full(d - 1, self._best_single), others])
        else:
            members = np.zeros((0, 2), dtype=np.int64)
        X = np.zeros((len(members), d), dtype=self.space.dtype)
        np.put_along_axis(X, members, 1, axis=1)
        self._starters = np.sort(members, axis=1) if len(X) else np.arange(d)[:, np.newaxis]
        return X

    def _children(self) -> Array | None:
        X = np.zeros((self._step, self.space.d), dtype=self.space.dtype)
        marks = np.zeros((self._step, 4), dtype=np.int64)
        random_parent, crossover, mutation = self._rates.values.tolist()
        plan = children.BatchPlan(
            random_parent,
            crossover,
            mutation,
            self._method,
            self._average,
            self._whole_batch,
            self.retries,
            self.max_count,
        )
        anyone = plan._replace(random_parent=1.0, method=children.DYNAMIC)
        ranked, table = self._archive.ranked(), self._seen.reserve(self._step)
        made = 0
        for elites, used in ((ranked, plan), (ranked, anyone), (self._reserve(), anyone)):
            if made == 0 and elites is not None:
                made = children.breed(
                    self._store.rows, elites, self._starters, used, table, self.rng, X, marks
                )
        self._seen.added(made)
        if made == 0:
            return self.give_up("no ensemble found that was not proposed before")
        self._pending_marks.append(marks[:made])
        return X[:made]


_WINDOW = 10  # batches
_LIMITS = np.array([[0.05, 0.95], [0.1, 0.9], [0.1, 0.9]])  # of the three probabilities


class OperatorProbabilities:
    """Three adaptive probabilities, each of a choice between two ways to make children.

    The probability of a way is the mean loss of the *other* way's children divided by the sum of
    both means. The means are over the last ten batches. A probability is adjusted if there were
    more than two children of each way, and it is clipped.

    Parameters
    ----------
    every : int
        Batches between two adjustments.
    by_child : bool
        How a cross counts for the choice of parents. False: each of its parents counts, so that a
        cross of a random parent and the best one counts on both sides. True: it counts once if its
        parents were both random or both the best, and otherwise not at all.

    Attributes
    ----------
    values : numpy.ndarray of float64, shape (3,)
        The probabilities of a random parent (rather than the best), of crossover (rather than
        mutation alone), and of mutation after crossover; 0.5 at first.
    """

    def __init__(self, every: int, by_child: bool = False) -> None:
        self.every, self.by_child = every, by_child
        self.values: FloatArray = np.full(3, 0.5)
        self._batches = 0
        self._window: deque[FloatArray] = deque(maxlen=_WINDOW)

    def learn(self, marks: IntArray, loss: FloatArray) -> None:
        """Learn from a batch of children.

        Parameters
        ----------
        marks : numpy.ndarray of int64, shape (n, 4)
            See :data:`algorithms.ensembling.searches.children.CROSSED`.
        loss : numpy.ndarray of float64, shape (n,)
            Not negative.
        """
        crossed, mutated = marks[:, CROSSED], marks[:, MUTATED]
        random, best = marks[:, RANDOM], marks[:, BEST]
        if self.by_child:
            random, best = (random > 0) & (best == 0), (best > 0) & (random == 0)
        kinds = (random, best), (crossed, 1 - crossed), (crossed * mutated, crossed * (1 - mutated))
        sides = np.stack([side for kind in kinds for side in kind])
        self._window.append(np.stack([(sides * loss).sum(axis=1), sides.sum(axis=1)]))
        self._batches += 1
        if self._batches % self.every == 0:
            self._adjust()

    def _adjust(self) -> None:
        totals, numbers = np.sum(self._window, axis=0).reshape(2, 3, 2)
        for j, (low, high) in enumerate(_LIMITS):
            if (numbers[j] > 2).all():
                this, other = totals[j] / numbers[j]
                share = other / (this + other) if this + other > 0 else 0.5
                self.values[j] = min(max(share, low), high)


class HAPEns(EnsembleEvolution):
    """Hardware-aware post-hoc ensembling: niches of loss correlation and of memory.

    Ensembles compete only within a niche of a grid, 7 x 7 by default, whose boundaries slide
    (:class:`~.archives.SlidingArchive`): first when the number of rows reaches that of the models
    plus a batch, then whenever it is a multiple of the number of models. For the parameters and
    all else see :class:`EnsembleEvolution`; with ``behavior`` another cost replaces memory.

    Notes
    -----
    "HAPEns: Hardware-Aware Post-Hoc Ensembling for Tabular Data", Section 3 and Algorithm 1. More
    evaluations move the boundaries to large ensembles, so that the elites lose the cheap end of
    the front; the run's front keeps it.
    """

    niches = ("loss_correlation", "memory")


class QDOES(EnsembleEvolution):
    """Quality-diversity optimisation: niches of config similarity and of loss correlation.

    Otherwise as :class:`HAPEns`. Purucker et al. 2023, arXiv:2307.08364.
    """

    niches = ("config_similarity", "loss_correlation")
    narrow = True


class QOES(EnsembleEvolution):
    """Quality optimisation: no niches, the 49 best ensembles (``cells`` squared) are the elites.

    Otherwise as :class:`HAPEns`, without ``behavior``. Purucker et al. 2023, arXiv:2307.08364.
    """

    niches = None
    narrow = True


class ParetoES(EnsembleEvolution):
    """HAPEns' operators on the front itself: the elites are all non-dominated rows so far.

    The single models are among them from the start, so that the cheap end is never lost. All
    objectives count, and no behaviour does. The method returns the run's front.

    A front of few elites, such as one of a score and the number of members over a small pool, has
    few children. If none of them is new, the next ones are bred from the 49 best rows (``cells``
    squared) by the fitness, dominated or not, until the front has new children again.

    Otherwise as :class:`HAPEns`, without ``behavior``. This method is from this package, not from a
    paper.
    """

    niches = None
    with_singles = True

    def _new_archive(self) -> EliteArchive:
        self._best = BestArchive(self._cells**2)
        return FrontArchive()

    def _keep(self, rows: Evaluated, violation: FloatArray, loss: FloatArray) -> None:
        super()._keep(rows, violation, loss)
        self._best.add(self._descriptors(rows), violation, loss)

    def _reserve(self) -> IntArray | None:
        return self._best.ranked()

    def _descriptors(self, rows: Evaluated) -> FloatArray:
        return self.roles.losses(rows.values)
