"""What a candidate looks like: five kinds of genome, each with bounds, sampling and a test.

A genome is one row of a two-dimensional array; a batch of ``n`` candidates is ``(n, space.d)``.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from functools import cached_property
from operator import ge, le
from typing import ClassVar

import numpy as np

from framework.arrays import Array, BoolArray, FloatArray
from framework.errors import ContractError, InputError

_FEW = 64  # genes up to which a loop is quicker than numpy


class Space(ABC):
    """The set of genomes that a problem can evaluate.

    Attributes
    ----------
    d : int
        Length of a genome.
    dtype : numpy.dtype
        Type of its genes.
    lower, upper : numpy.ndarray, shape (d,)
        Least and greatest value of each gene, both inclusive.
    """

    words: ClassVar[str] = "any space"  # what messages call the genomes
    d: int
    dtype: np.dtype[np.generic]
    lower: Array
    upper: Array

    @property
    def size(self) -> int | None:
        """Number of genomes; None where they cannot be counted."""
        return None

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` genomes, shape (size, d)."""

    def sample_by_size(self, rng: np.random.Generator, size: int) -> Array:
        """Draw genomes so that small sizes (of blocks, of picks) are as likely as large ones.

        It is :meth:`sample` if genomes of the space have no size, or if that already spreads the
        sizes evenly.
        """
        return self.sample(rng, size)

    def contains(self, X: Array) -> BoolArray:
        """Return for each row of ``X``, shape (n, d), whether it is a genome of this space."""
        return np.asarray(((self.lower <= X) & (self.upper >= X)).all(axis=1), dtype=bool)

    def check_bounds(self, X: Array) -> None:
        """Check type and shape (n, d), n at least 1, and that all genes are within their bounds.

        Raises
        ------
        ContractError
            They are not; the message names the first gene beyond its bounds.
        """
        if X.dtype != self.dtype or X.ndim != 2 or X.shape[1] != self.d or not len(X):
            raise ContractError(
                f"propose: expected {self.dtype} genomes of shape (n, {self.d}), n at least 1, "
                f"found {X.dtype} of shape {X.shape}"
            )
        if X.size <= _FEW:
            genes, n = X.ravel().tolist(), len(X)
            if all(map(le, self.lower.tolist() * n, genes)) and all(
                map(ge, self.upper.tolist() * n, genes)
            ):
                return
        inside = (self.lower <= X) & (self.upper >= X)
        if inside.all():
            return
        row, gene = np.argwhere(~inside)[0].tolist()
        raise ContractError(
            f"propose: expected genomes of {self!r}, found {X[row, gene]} as gene {gene} of row "
            f"{row}, which goes from {self.lower[gene]} to {self.upper[gene]}"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self.d} genes"


class Partition(Space):
    """Ordered partitions of ``n`` items into at most ``k`` non-empty blocks.

    Gene ``i`` is the block of item ``i``, counted from 0; no block below the greatest may be
    empty (Hamilton and Fulp, Section 3.1). With ``removal`` a gene may also be -1: the item is left
    out altogether (Section 5.1, "Feature Removal Option"); at least one item stays.

    The genes of the items may be followed by ``levels`` more genes, whole numbers from 0 to
    ``values - 1`` that say how blocks are used. Gene ``n + j`` belongs to the transition from block
    ``j`` to the next one or, with ``last``, to block ``j`` itself; it is 0 where there is no such
    transition or block. If ``levels`` is 1, the gene is for all blocks.

    Parameters
    ----------
    n : int
        Number of items, at least 1.
    k : int
        Greatest number of blocks, 1 <= k <= n.
    removal : bool
        Whether -1 is a gene.
    levels, values : int
        Number of further genes, and of the values of each.
    last : bool
        Whether the last block has a level, too.
    """

    words = "ordered partitions"

    def __init__(
        self,
        n: int,
        k: int,
        removal: bool = False,
        levels: int = 0,
        values: int = 1,
        last: bool = False,
    ) -> None:
        if n < 1:
            raise InputError(f"Partition: expected at least one item, found n={n}")
        if not 1 <= k <= n:
            raise InputError(f"Partition: expected 1 <= k <= n={n} blocks, found k={k}")
        most = k if last else max(k - 1, 1)
        if not (0 <= levels <= most and 1 <= values <= 127):
            raise InputError(
                f"Partition: expected at most {most} levels for k={k} blocks, each of 1 to 127 "
                f"values, found {levels} of {values}"
            )
        self.n, self.k, self.removal = n, k, removal
        self.levels, self.values, self.last = levels, values, last
        self.d = n + levels
        self.dtype = np.dtype(np.int8 if k <= 127 else np.int16)
        self.lower = np.zeros(self.d, dtype=self.dtype)
        self.lower[:n] = -1 if removal else 0
        self.upper = np.full(self.d, values - 1, dtype=self.dtype)
        self.upper[:n] = k - 1

    @property
    def size(self) -> int:
        """Number of ordered partitions (Hamilton and Fulp, Equations 1 and 2), times their levels.

        With ``removal``, summed over the non-empty subsets of items that are kept.
        """
        return sum(self._counts.values())

    def __repr__(self) -> str:
        return f"ordered partitions of {self.n} items into at most {self.k} blocks"

    def checked(self, X: Array) -> Array:
        """Return genomes (n, d) as a writeable copy in the type of the space.

        Raises
        ------
        ValueError
            The shape is another one, or a gene is beyond its bounds.
        """
        if X.ndim != 2 or X.shape[1] != self.d:
            raise ValueError(f"expected genomes of shape (n, {self.d}), found {X.shape}")
        for what, genes in (("blocks", slice(self.n)), ("levels", slice(self.n, self.d))):
            values, low, high = X[:, genes], self.lower[genes], self.upper[genes]
            if values.size and (values.min() < low[0] or values.max() > high[0]):
                raise ValueError(
                    f"expected {what} from {low[0]} to {high[0]}, found {values.min()} to "
                    f"{values.max()}"
                )
        return np.array(X, dtype=self.dtype, order="C")

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw every genome of the space with the same probability.

        Notes
        -----
        The number of items that are not removed and the number of blocks are drawn with a
        probability proportional to the number of genomes that have them. Then the items are divided
        one by one, by the recurrence of the Stirling numbers of the second kind, S(m, j) =
        S(m - 1, j - 1) + j S(m - 1, j). Last, the blocks are put in random order. Genomes are
        counted in whole numbers; only their ratios are rounded. O(size (n + k)), and O(n k)
        whole-number operations once.
        """
        counts = self._counts
        shares = [up_to / self.size for up_to in itertools.accumulate(counts.values())]
        pair = np.searchsorted(shares, rng.random(size), side="right")
        sizes, blocks = np.array(list(counts))[pair].T
        alone = self._alone
        left = blocks.copy()  # blocks that the items not yet placed fill among themselves
        block = np.full((size, self.n), -1)
        for item in reversed(range(self.n)):
            opens = rng.random(size) < alone[item + 1, left]
            joined = np.floor(rng.random(size) * left).astype(np.int64)
            placed = item < sizes
            block[placed, item] = np.where(opens, left - 1, joined)[placed]
            left = left - (placed & opens)
        keys = rng.random((size, self.k))
        keys[np.arange(self.k) >= blocks[:, np.newaxis]] = 2.0
        order = keys.argsort(axis=1).argsort(axis=1)
        genes = np.where(block < 0, -1, np.take_along_axis(order, np.maximum(block, 0), axis=1))
        if self.removal:  # the first items were placed; shuffle which ones these are
            genes = rng.permuted(genes, axis=1)
        return self._with_levels(genes.astype(self.dtype), rng)

    def sample_by_size(self, rng: np.random.Generator, size: int) -> Array:
        """Cut a random order of the items at random places, into what is removed and the blocks.

        Small blocks are as likely as large ones, where nearly all designs have blocks of about the
        same size. That makes a good start for a search, but is not "a random design".
        """
        place = rng.random((size, self.n)).argsort(axis=1).argsort(axis=1)
        cuts = rng.integers(self.n, size=(size, self.k - 1 + self.removal))
        raw = np.full((size, self.n), -int(self.removal))
        for cut in cuts.T:
            raw += place >= cut[:, np.newaxis]
        return self._with_levels(compress(raw).astype(self.dtype), rng)

    def _with_levels(self, items: Array, rng: np.random.Generator) -> Array:
        """Append random levels to the genes of items, shape (size, n)."""
        if not self.levels:
            return items
        drawn = rng.integers(0, self.values, size=(len(items), self.levels), dtype=self.dtype)
        return self.settle(np.concatenate([items, drawn], axis=1))

    def settle(self, X: Array) -> Array:
        """Set levels without a block or transition to 0 in place; return ``X``, shape (m, d)."""
        if self.levels:
            used = X[:, : self.n].max(axis=1, initial=-1)[:, np.newaxis] + self.last
            X[:, self.n :][np.arange(self.levels) >= used] = 0
        return X

    def repaired(self, X: Array) -> Array:
        """Return genomes similar to rows (m, d) of whole numbers within the bounds of the genes.

        Gaps between blocks are closed, levels that are not used become 0, and where no item is in
        a block the first one is.
        """
        X = X.astype(self.dtype)
        X[(X[:, : self.n] < 0).all(axis=1), 0] = 0
        X[:, : self.n] = compress(X[:, : self.n])
        return self.settle(X)

    @cached_property
    def _counts(self) -> dict[tuple[int, int], int]:
        """Number of genomes by (items, blocks) that they have (Equation 1, times their levels)."""
        stirling = _stirling(self.n, self.k)
        return {
            (m, j): math.comb(self.n, m)
            * math.factorial(j)
            * stirling[m][j]
            * self.values ** min(self.levels, j - 1 + self.last)
            for m in (range(1, self.n + 1) if self.removal else [self.n])
            for j in range(1, min(self.k, m) + 1)
        }

    @cached_property
    def _alone(self) -> FloatArray:
        """Probability that item m is alone in one of the j blocks of items 1 to m, [m, j]."""
        stirling = _stirling(self.n, self.k)
        table = np.zeros((self.n + 1, self.k + 1))
        for m in range(1, self.n + 1):
            for j in range(1, min(self.k, m) + 1):
                table[m, j] = stirling[m - 1][j - 1] / stirling[m][j]
        return table

    def contains(self, X: Array) -> BoolArray:
        """Tell which rows stay within the bounds and have no empty block."""
        inside, items = super().contains(X), X[:, : self.n]
        closed = (compress(items) == items).all(axis=1) & (items >= 0).any(axis=1)
        settled = (self.settle(np.array(X)) == X).all(axis=1)
        return np.asarray(inside & closed & settled)


class Counts(Space):
    """How often each of ``n`` items is picked, each at most ``max_count`` times.

    Parameters
    ----------
    n, max_count : int
        At least 1.
    empty : bool
        Whether a genome may pick nothing at all; a selection needs at least one item.
    """

    words = "counts of items"

    def __init__(self, n: int, max_count: int, empty: bool = True) -> None:
        if n < 1 or max_count < 1:
            raise InputError(
                f"Counts: expected n >= 1 and max_count >= 1, found n={n}, max_count={max_count}"
            )
        self.n, self.max_count, self.empty, self.d = n, max_count, empty, n
        self.dtype = np.dtype(np.int32)
        self.lower = np.zeros(n, dtype=self.dtype)
        self.upper = np.full(n, max_count, dtype=self.dtype)

    @property
    def size(self) -> int:
        """Number of count vectors."""
        return int((self.max_count + 1) ** self.n) - (not self.empty)

    def __repr__(self) -> str:
        return f"counts of {self.n} items, each at most {self.max_count}"

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw genomes: with ``empty`` each count uniformly, without it small genomes more often.

        Without ``empty``, first the number of items picked and then their counts are drawn
        log-uniformly, so that few items are as likely as many. Uniform counts would pick nearly
        all items, and selections that large are of little use.
        """
        if self.empty:
            return rng.integers(0, self.max_count + 1, size=(size, self.n), dtype=np.int32)
        picked = _log_uniform(rng, self.n, (size, 1))
        place = rng.random((size, self.n)).argsort(axis=1).argsort(axis=1)
        counts = _log_uniform(rng, self.max_count, (size, self.n))
        return np.asarray(np.where(place < picked, counts, 0), dtype=self.dtype)

    def contains(self, X: Array) -> BoolArray:
        """Tell which rows stay within the bounds and pick an item, unless ``empty`` is allowed."""
        return np.asarray(super().contains(X) & (self.empty | (X > 0).any(axis=1)))


class Bits(Space):
    """Subsets of ``n`` items: a gene of 0 or 1 for each item."""

    words = "subsets"

    def __init__(self, n: int) -> None:
        if n < 1:
            raise InputError(f"Bits: expected at least one item, found n={n}")
        self.n, self.d = n, n
        self.dtype = np.dtype(np.int8)
        self.lower = np.zeros(n, dtype=self.dtype)
        self.upper = np.ones(n, dtype=self.dtype)

    @property
    def size(self) -> int:
        """Number of subsets."""
        return int(2**self.n)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw each bit as 0 or 1 with equal probability."""
        return rng.integers(0, 2, size=(size, self.n), dtype=np.int8)


class Integers(Space):
    """Whole numbers, each gene between bounds of its own.

    Parameters
    ----------
    lower, upper : array_like of int, shape (d,)
        Least and greatest value of each gene, both inclusive, ``lower <= upper``.
    members : int
        The number of leading genes that say how often an item is picked. Their ``lower`` is 0, and
        at least one of them is above 0 in each genome. Moves treat them as counts, and all other
        genes as ordered numbers.
    """

    words = "whole numbers within bounds"

    def __init__(self, lower: Array, upper: Array, members: int = 0) -> None:
        low, high = np.asarray(lower), np.asarray(upper)
        if low.ndim != 1 or low.shape != high.shape or len(low) == 0:
            raise InputError(
                f"Integers: expected two corners of one shape (d,), found {low.shape} and "
                f"{high.shape}"
            )
        self.dtype = np.dtype(np.int32)
        self.lower, self.upper = low.astype(self.dtype), high.astype(self.dtype)
        self.d, self.members = len(low), members
        if not ((self.lower == low).all() and (self.upper == high).all()):
            raise InputError("Integers: expected whole numbers of 32 bits as corners")
        if not (self.lower <= self.upper).all():
            raise InputError("Integers: expected lower <= upper in every gene")
        if not 0 <= members <= self.d or self.lower[:members].any():
            raise InputError(
                f"Integers: expected at most d={self.d} members, each with lower 0, found "
                f"{members} with {self.lower[:members].tolist()}"
            )
        if members and not self.upper[:members].any():
            raise InputError("Integers: expected a member that can be picked, found none")

    @property
    def size(self) -> int:
        """Number of vectors."""
        values = [int(v) for v in self.upper.astype(np.int64) - self.lower + 1]
        rest = math.prod(values[self.members :])
        return (math.prod(values[: self.members]) - (self.members > 0)) * rest

    def __repr__(self) -> str:
        members = f", {self.members} of them members" if self.members else ""
        return f"{self.d} whole numbers with bounds of their own{members}"

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw each gene uniformly; where no member is picked, pick a random one once."""
        X = rng.integers(self.lower, self.upper, size=(size, self.d), endpoint=True)
        if self.members:
            pickable = np.flatnonzero(self.upper[: self.members])
            member = rng.choice(pickable, size=size)
            nothing = ~X[:, : self.members].any(axis=1)
            X[nothing, member[nothing]] = 1
        return X.astype(self.dtype)

    def contains(self, X: Array) -> BoolArray:
        """Tell which rows stay within the bounds and pick a member, if there are members."""
        picked = (X[:, : self.members] > 0).any(axis=1) | (self.members == 0)
        return np.asarray(super().contains(X) & picked)


class Box(Space):
    """Real vectors between two corners.

    Parameters
    ----------
    lower, upper : array_like, shape (d,)
        The corners, ``lower <= upper``.
    whole : array_like of bool, shape (d,), optional
        Genes that are whole numbers, without an order between them; none if None.
    """

    words = "real numbers within bounds"

    def __init__(
        self, lower: FloatArray, upper: FloatArray, whole: BoolArray | None = None
    ) -> None:
        self.lower = np.asarray(lower, dtype=np.float64)
        self.upper = np.asarray(upper, dtype=np.float64)
        if self.lower.ndim != 1 or self.lower.shape != self.upper.shape:
            raise InputError(
                f"Box: expected two corners of one shape (d,), found {self.lower.shape} "
                f"and {self.upper.shape}"
            )
        if not (self.lower <= self.upper).all():
            raise InputError("Box: expected lower <= upper in every coordinate")
        self.d = len(self.lower)
        self.dtype = np.dtype(np.float64)
        self.whole = np.zeros(self.d, bool) if whole is None else np.asarray(whole, dtype=bool)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw uniformly from the box."""
        unit = rng.random((size, self.d))
        X = np.asarray(self.lower + unit * (self.upper - self.lower))
        if self.whole.any():
            steps = np.floor(unit * (self.upper - self.lower + 1))
            X = np.where(self.whole, self.lower + steps, X)
        return X

    def contains(self, X: Array) -> BoolArray:
        """Tell which rows stay within the bounds and have whole numbers in the ``whole`` genes."""
        return np.asarray(super().contains(X) & ((np.rint(X) == X) | ~self.whole).all(axis=1))


def _log_uniform(rng: np.random.Generator, max_count: int, shape: tuple[int, ...]) -> Array:
    """Draw numbers from 1 to ``max_count`` whose logarithms are uniform."""
    drawn = np.floor(np.exp(rng.random(shape) * np.log(max_count + 1)))
    return np.asarray(np.minimum(drawn, max_count), dtype=np.int64)


def _stirling(n: int, k: int) -> list[list[int]]:
    """Return the numbers of partitions of m items into j non-empty blocks, (n + 1, k + 1)."""
    table = [[1] + [0] * k]
    for _ in range(n):
        last = table[-1]
        table.append([0, *(last[j - 1] + j * last[j] for j in range(1, k + 1))])
    return table


def compress(X: Array) -> Array:
    """Close the gaps in the block numbers of each row (Hamilton and Fulp, Section 3.1).

    The blocks in use are renumbered 0, 1, ... in their old order, which is the final result of the
    paper's "while there is a missing j, replace j + 1 with j"; -1 stays.

    Parameters
    ----------
    X : numpy.ndarray of int, shape (n, d)

    Returns
    -------
    numpy.ndarray, shape (n, d), same dtype

    Examples
    --------
    >>> compress(np.array([[0, 0, 0, 2]]))
    array([[0, 0, 0, 1]])
    """
    top = int(X.max(initial=-1)) + 2  # one slot for the gene -1
    used = np.zeros((len(X), top), dtype=bool)
    np.put_along_axis(used, X.astype(np.int64) + 1, True, axis=1)
    used[:, 0] = False
    rank = used.cumsum(axis=1) - 1
    return np.asarray(np.take_along_axis(rank, X.astype(np.int64) + 1, axis=1), dtype=X.dtype)
