"""Cost-penalised regression trees, slowly and obviously: the twin of the kernel and of LightGBM."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

TIE = 1e-10


def first_best(worth):
    """Return the position of the greatest, the first of equals up to rounding."""
    best = 0
    for j in range(1, len(worth)):
        if worth[j] > worth[best] + TIE:
            best = j
    return best


class MiserTree:
    """One tree on a gradient, by exact search over all midpoints.

    Parameters
    ----------
    order : 'level' or 'best'
        Split the leaves level by level from left to right, or the most worthwhile one first.
    refund : 'once' or 'twice'
        What a split that waits at another leaf is worth once its feature was bought: what it saves
        (it costs nothing any more), or that plus a price it never paid, and only if it wins then.
    stopping : bool
        Split where half of what is saved exceeds the price, and free a feature at once; or split
        wherever there is a cut, by all that is saved, and free features when the tree is grown.

    Attributes
    ----------
    cuts : list of (column, where)
    """

    def __init__(self, Z, gradient, prices, bought, *, depth, order, refund="once", stopping=True):
        self.Z, self.gradient, self.prices = Z, gradient, prices
        self.bought = bought if stopping else bought.copy()
        self.refund, self.stopping, self.cuts = refund, stopping, []
        least = TIE if stopping else -np.inf
        self.leaves, self.level = [np.arange(len(Z))], [0]
        self.saved, self.worth, self.chosen = [], [], []
        self.new_leaf(0)
        while True:
            open_ = [
                i
                for i in range(len(self.leaves))
                if self.level[i] < depth and self.worth[i][self.chosen[i]] > least
            ]
            if not open_:
                break
            if order == "best":
                self.split(max(open_, key=lambda i: self.worth[i][self.chosen[i]]))
            else:
                self.split(min(open_, key=lambda i: (self.level[i], i)))
        bought[[column for column, _ in self.cuts]] = True

    def new_leaf(self, i):
        """Note what the best split on each feature would save in leaf ``i``, and be worth."""
        saved = [self.best_cut(self.leaves[i], c) for c in range(self.Z.shape[1])]
        paid = np.where(self.bought, 0.0, self.prices)
        worth = np.array([value for value, _ in saved]) - paid
        for table, entry in (
            (self.saved, saved),
            (self.worth, worth),
            (self.chosen, first_best(worth)),
        ):
            table[i:i] = [entry]

    def best_cut(self, records, column):
        best = (-np.inf, np.nan)
        g, values = self.gradient[records], np.unique(self.Z[records, column])
        for low, high in pairwise(values):
            left = self.Z[records, column] <= low
            saved = g[left].sum() ** 2 / left.sum() + g[~left].sum() ** 2 / (~left).sum()
            saved = (0.5 if self.stopping else 1.0) * (saved - g.sum() ** 2 / len(g))
            if saved > best[0] + TIE:
                best = (saved, (low + high) / 2)
        return best

    def split(self, i):
        column, records = self.chosen[i], self.leaves[i]
        left = self.Z[records, column] <= self.saved[i][column][1]
        self.cuts.append((column, self.saved[i][column][1]))
        if self.stopping and not self.bought[column]:
            self.bought[column] = True
            for other in set(range(len(self.leaves))) - {i}:
                self.give_back(other, column)
        self.leaves[i : i + 1] = [records[left], records[~left]]
        self.level[i : i + 1] = [self.level[i] + 1] * 2
        for table in (self.saved, self.worth, self.chosen):
            del table[i]
        self.new_leaf(i)
        self.new_leaf(i + 1)

    def give_back(self, other, column):
        saved = self.saved[other][column][0]
        if self.refund == "once":
            self.worth[other][column] = saved
            self.chosen[other] = first_best(self.worth[other])
        elif saved + self.prices[column] > self.worth[other][self.chosen[other]]:
            self.worth[other][column] = saved + self.prices[column]
            self.chosen[other] = column

    def predictions(self):
        found = np.empty(len(self.Z))
        for records in self.leaves:
            found[records] = self.gradient[records].mean()
        return found


def boost_squares(Z, y, prices, *, rounds, step, **how):
    """Return scores after boosting the squared loss, and which features were bought."""
    scores, bought = np.zeros(len(y)), np.zeros(Z.shape[1], dtype=bool)
    for _ in range(rounds):
        scores += step * MiserTree(Z, y - scores, prices, bought, **how).predictions()
    return scores, bought


def boost_full_squares(Z, y, prices, *, rounds, step, depth):
    """Return scores after boosting full trees on the squared loss, features bought, and cuts."""
    scores, bought, cuts = np.zeros(len(y)), np.zeros(Z.shape[1], dtype=bool), []
    for _ in range(rounds):
        tree = MiserTree(Z, y - scores, prices, bought, depth=depth, order="level", stopping=False)
        scores += step * tree.predictions()
        cuts.append(sorted(tree.cuts))
    return scores, bought, cuts
