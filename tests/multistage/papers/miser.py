"""Cost-penalised regression trees, slowly and obviously: the twin of the kernel."""

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


def best_cut(Z, gradient, records, column):
    """Return what the best cut of some records on a column saves, of all midpoints, and it."""
    best = (-np.inf, np.nan)
    g, values = gradient[records], np.unique(Z[records, column])
    for low, high in pairwise(values):
        left = Z[records, column] <= low
        saved = g[left].sum() ** 2 / left.sum() + g[~left].sum() ** 2 / (~left).sum()
        saved -= g.sum() ** 2 / len(g)
        if saved > best[0] + TIE:
            best = (saved, (low + high) / 2)
    return best


def full_tree(Z, gradient, paid, depth):
    """Return the predictions and the cuts (column, where) of a tree that splits all it can."""
    leaves, cuts = [np.arange(len(Z))], []
    for _ in range(depth):
        split = []
        for records in leaves:
            found = [best_cut(Z, gradient, records, c) for c in range(Z.shape[1])]
            worth = np.array([saved for saved, _ in found]) - paid
            column = first_best(worth)
            if worth[column] == -np.inf:
                split.append(records)
                continue
            cuts.append((column, found[column][1]))
            left = Z[records, column] <= found[column][1]
            split += [records[left], records[~left]]
        leaves = split
    predictions = np.empty(len(Z))
    for records in leaves:
        predictions[records] = gradient[records].mean()
    return predictions, cuts


def boost_full_squares(Z, y, prices, *, rounds, step, depth):
    """Return scores after boosting full trees on the squared loss, features bought, and cuts."""
    scores, bought, cuts = np.zeros(len(y)), np.zeros(Z.shape[1], dtype=bool), []
    for _ in range(rounds):
        predictions, own = full_tree(Z, y - scores, np.where(bought, 0.0, prices), depth)
        bought[[column for column, _ in own]] = True
        scores += step * predictions
        cuts.append(sorted(own))
    return scores, bought, cuts
