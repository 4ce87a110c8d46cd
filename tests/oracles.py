"""Slow, obviously right twins of what the package does fast."""

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from framework.space import Space


def dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    """Tell whether losses ``a`` are nowhere worse than ``b`` and somewhere better."""
    return all(x <= y for x, y in zip(a, b, strict=True)) and any(
        x < y for x, y in zip(a, b, strict=True)
    )


def nondominated(losses: np.ndarray) -> list[bool]:
    """Compare all pairs; of equal rows the first counts."""
    keep = []
    for i, row in enumerate(losses):
        beaten = any(dominates(other, row) for other in losses)
        repeated = any(np.array_equal(other, row) for other in losses[:i])
        keep.append(not beaten and not repeated)
    return keep


def hypervolume(losses: np.ndarray, reference: np.ndarray) -> float:
    """Add up the grid cells between all coordinates that some point dominates."""
    m = losses.shape[1]
    axes = [np.unique(np.append(losses[:, j], reference[j])) for j in range(m)]
    axes = [axis[axis <= reference[j]] for j, axis in enumerate(axes)]
    total = 0.0
    for cell in np.ndindex(*[max(len(axis) - 1, 0) for axis in axes]):
        corner = [axes[j][cell[j]] for j in range(m)]
        if any(all(row <= corner) for row in losses):
            total += float(np.prod([axes[j][cell[j] + 1] - axes[j][cell[j]] for j in range(m)]))
    return total


def igd_plus(losses: np.ndarray, reference_set: np.ndarray) -> float:
    """Average the distances from reference points to the regions that the losses dominate."""
    distances = [
        min(float(np.sqrt((np.maximum(row - point, 0.0) ** 2).sum())) for row in losses)
        for point in reference_set
    ]
    return float(np.mean(distances))


def compress(genome: Sequence[int]) -> list[int]:
    """Close gaps as the EMSCO paper words it: while a stage j is missing, j + 1 becomes j."""
    stages = list(genome)
    while True:
        top = max(stages)
        missing = [j for j in range(top + 1) if j not in stages]
        if not missing:
            return stages
        j = missing[0]
        stages = [stage - 1 if stage > j else stage for stage in stages]


def peel(losses: np.ndarray, violation: np.ndarray) -> list[int]:
    """Rank rows: non-dominated feasible ones 0, those of the rest 1, ...; then by violation."""
    layers = [-1] * len(losses)
    left = [i for i in range(len(losses)) if violation[i] == 0]
    layer = 0
    while left:
        best = [i for i in left if not any(dominates(losses[j], losses[i]) for j in left)]
        for i in best:
            layers[i] = layer
        left = [i for i in left if i not in best]
        layer += 1
    for amount in sorted({float(v) for v in violation if v > 0}):
        for i in range(len(losses)):
            if violation[i] == amount:
                layers[i] = layer
        layer += 1
    return layers


def feature_sets(genome: Sequence[int]) -> list[frozenset[int]]:
    """Return the features acquired up to each stage."""
    return [
        frozenset(i for i, stage in enumerate(genome) if 0 <= stage <= last)
        for last in range(max(genome) + 1)
    ]


def cascade(
    genome: Sequence[int],
    probabilities: Mapping[frozenset[int], np.ndarray],
    labels: Sequence[int],
    thresholds: Sequence[float],
    costs: Sequence[Fraction],
    positive: int,
    panels: Sequence[tuple[set[int], int]] = (),
    of_stage: int = 0,
) -> dict[str, Fraction]:
    """Send records through the stages one at a time (EMSCO paper, Section 2.2).

    ``probabilities`` has, for each feature set, one row per record.
    """
    answered = right = answered_negatives = false_positives = 0
    cost = Fraction(0)
    seen: list[tuple[int, int]] = []
    for record, label in enumerate(labels):
        for stage, features in enumerate(feature_sets(genome)):
            cost += paid_at(stage, genome, costs, panels) + of_stage
            p = probabilities[features][record].tolist()
            answer = p.index(max(p))
            if p[answer] >= thresholds[answer] - 1e-9:
                answered += 1
                right += answer == label
                seen.append((label, answer))
                answered_negatives += label != positive
                false_positives += label != positive and answer == positive
                break
    n = len(labels)
    return {
        "coverage": Fraction(answered, n),
        "accuracy": Fraction(right, answered) if answered else Fraction(0),
        "cost": cost / n,
        "stages": Fraction(max(genome) + 1),
        "inconclusive_rate": Fraction(n - answered, n),
        "false_positive_rate": Fraction(false_positives, max(answered_negatives, 1)),
        **class_metrics(seen, labels, positive),
    }


def class_metrics(
    seen: Sequence[tuple[int, int]], labels: Sequence[int], positive: int
) -> dict[str, Fraction]:
    """Return what (true, answered) pairs say of each class; ``labels`` are those of all records."""

    def share(some: int, of: int) -> Fraction:
        return Fraction(some, max(of, 1))

    recalls = [
        share(seen.count((c, c)), sum(true == c for true, _ in seen)) for c in sorted(set(labels))
    ]
    hits = seen.count((positive, positive))
    misses = sum(true == positive != answer for true, answer in seen)
    false = sum(answer == positive != true for true, answer in seen)
    return {
        "balanced_accuracy": sum(recalls, Fraction(0)) / len(recalls),
        "worst_recall": min(recalls),
        "recall": share(hits, hits + misses),
        "false_negative_rate": share(misses, hits + misses),
        "f1": share(2 * hits, 2 * hits + false + misses),
    }


def paid_at(stage, genome, costs, panels=()):
    """Return what a stage costs: its features, and the panels that have none before it."""
    paid = sum(c for c, s in zip(costs, genome, strict=True) if s == stage)
    for members, cost in panels:
        stages = [genome[i] for i in members if genome[i] >= 0]
        if stages and min(stages) == stage:
            paid += cost
    return paid


def every_genome(space: Space) -> np.ndarray:
    """List all genomes of a space of whole numbers."""
    every = np.indices(tuple(space.upper - space.lower + 1)).reshape(space.d, -1).T + space.lower
    return np.asarray(every[space.contains(every)].astype(space.dtype))


def ordered_partitions(n: int, k: int, removal: bool = False) -> list[tuple[int, ...]]:
    """List all assignments of n items to at most k stages, none of them empty."""
    lowest = -1 if removal else 0
    found = []
    for genome in itertools.product(range(lowest, k), repeat=n):
        used = {stage for stage in genome if stage >= 0}
        if used and used == set(range(len(used))):
            found.append(genome)
    return found


def chain_vectors(
    genomes: Sequence[Sequence[int]],
    answers: Mapping[frozenset[int], Sequence[bool | None]],
    costs: Sequence[int],
    panels: Sequence[tuple[set[int], int]] = (),
    of_stage: int = 0,
) -> dict[tuple[int, int, int], list[tuple[int, ...]]]:
    """Sort genomes by records answered, answered rightly, and cost, each record on its own.

    ``answers`` has, for each feature set, whether each record is answered rightly; None = not
    answered.
    """
    found: dict[tuple[int, int, int], list[tuple[int, ...]]] = {}
    for genome in genomes:
        answered = right = cost = 0
        for record in range(len(next(iter(answers.values())))):
            for stage, features in enumerate(feature_sets(genome)):
                cost += paid_at(stage, genome, costs, panels) + of_stage
                answer = answers[features][record]
                if answer is not None:
                    answered, right = answered + 1, right + answer
                    break
        found.setdefault((answered, right, cost), []).append(tuple(genome))
    return found


def front_of_vectors(vectors: Sequence[tuple[int, int, int]]) -> set[tuple[int, int, int]]:
    """Return the (answered, right, cost) that none dominates in coverage, accuracy and cost."""
    losses = [(-a, -Fraction(r, a) if a else Fraction(0), c) for a, r, c in vectors]
    return {
        vector
        for vector, loss in zip(vectors, losses, strict=True)
        if not any(dominates(other, loss) for other in losses)
    }


def ordered_neighbours(x: Sequence[int], k: int, removal: bool) -> set[tuple[int, ...]]:
    """Return all genomes one move away from ``x``, by moving lists of stages about."""
    stages = [[i for i, stage in enumerate(x) if stage == s] for s in range(max(x, default=-1) + 1)]
    kept = [i for i, stage in enumerate(x) if stage >= 0]
    found: list[list[list[int]]] = []
    for item in range(len(x)):
        without = [[i for i in stage if i != item] for stage in stages]
        for s in range(len(stages)):
            found.append([[*stage, item] if t == s else stage for t, stage in enumerate(without)])
        for place in range(len(stages) + 1):
            found.append([*without[:place], [item], *without[place:]])
        if removal and kept != [item]:
            found.append(without)
    for i, j in itertools.combinations(range(len(x)), 2):
        other = {i: j, j: i}
        found.append([[other.get(item, item) for item in stage] for stage in stages])
    for s in range(len(stages) - 1):
        found.append([*stages[:s], stages[s] + stages[s + 1], *stages[s + 2 :]])
    closed = [[stage for stage in system if stage] for system in found]
    return {genome_of(system, len(x)) for system in closed if len(system) <= k}


def neighbours_of_numbers(space: Space, x: np.ndarray, picks: int) -> set[tuple[int, ...]]:
    """Return all genomes one move away from ``x``, of which the first ``picks`` numbers are counts.

    A number is one more or one less; a count may also be 0, or go to an item that has none.
    """
    found = []
    for i in range(len(x)):
        for value in (x[i] + 1, x[i] - 1, *([0] if i < picks else [])):
            y = x.copy()
            y[i] = value
            found.append(y)
    for i, j in itertools.permutations(range(picks), 2):
        if x[i] > 0 and x[j] == 0:
            y = x.copy()
            y[i], y[j] = 0, min(x[i], space.upper[j])
            found.append(y)
    inside = np.array(found)[space.contains(np.array(found))]
    return {tuple(y) for y in inside.tolist()} - {tuple(x.tolist())}


def genome_of(stages: Sequence[Sequence[int]], n: int) -> tuple[int, ...]:
    """Return the stage of each item, -1 where it is in none."""
    of = {item: s for s, stage in enumerate(stages) for item in stage}
    return tuple(of.get(item, -1) for item in range(n))


def sliding_elites(
    behaviour: np.ndarray,
    violation: np.ndarray,
    loss: np.ndarray,
    bounds: np.ndarray,
    first: int,
    every: int,
    cells: int,
) -> tuple[np.ndarray, dict[tuple[int, int], int]]:
    """Return the boundaries after all rows, and the best row of each cell, by looking at all."""
    boundaries = np.linspace(bounds[:, 0], bounds[:, 1], cells + 1).T
    for n in range(1, len(loss) + 1):
        if n == first or (n > first and n % every == 0):
            for d in range(2):
                ranked = sorted(behaviour[:n, d])
                boundaries[d] = [ranked[j * n // cells] for j in range(cells)] + [ranked[-1]]
    elites: dict[tuple[int, int], int] = {}
    for row in sorted(range(len(loss)), key=lambda row: (violation[row], loss[row], row)):
        cell = tuple(
            max([j for j in range(cells) if boundaries[d][j] <= behaviour[row, d]], default=0)
            for d in range(2)
        )
        elites.setdefault(cell, row)
    return boundaries, elites


def ensemble_score(
    name: str, P: np.ndarray, y: np.ndarray, x: Sequence[int], classes: int
) -> float:
    """Return a score of one ensemble, record by record and in fractions until the last step.

    ``P`` (K, N) or (K, N, C) are taken as the numbers that they are; of equally likely classes the
    first is the answer.
    """
    total = sum(x)
    means = []
    for i in range(len(y)):
        values = [np.atleast_1d(P[j, i]) for j in range(len(P))]
        mean = [
            sum(c * Fraction(float(v[k])) for c, v in zip(x, values, strict=True)) / total
            for k in range(len(values[0]))
        ]
        means.append([1 - mean[0], mean[0]] if classes == 2 else mean)
    if not classes:
        apart = [mean[0] - Fraction(float(value)) for mean, value in zip(means, y, strict=True)]
        square = float(sum(d * d for d in apart) / len(y))
        if name == "mae":
            return float(sum(map(abs, apart)) / len(y))
        return math.sqrt(square) if name == "rmse" else 1 - square / float(np.var(y))
    if name == "log_loss":
        least = 2.0**-52
        chances = [float(mean[c]) for mean, c in zip(means, y.tolist(), strict=True)]
        return sum(-math.log(min(max(p, least), 1 - least)) for p in chances) / len(y)
    if name == "brier":
        squares = [
            (p - (k == c)) ** 2
            for mean, c in zip(means, y.tolist(), strict=True)
            for k, p in enumerate(mean)
        ]
        return float(sum(squares) / len(y)) / (2 if classes == 2 else 1)
    right = [mean.index(max(mean)) == c for mean, c in zip(means, y.tolist(), strict=True)]
    if name == "accuracy":
        return sum(right) / len(y)
    recalls = [
        sum(r for r, c in zip(right, y, strict=True) if c == k) / int((y == k).sum())
        for k in sorted(set(y.tolist()))
    ]
    return sum(recalls) / len(recalls)


def range_of_half(
    claimed: float,
    expected: float,
    variance: float,
    about: float,
    ends: tuple[float, float] = (0.0, 1.0),
    more: float = 0.0,
) -> tuple[float, float]:
    """Return a 95% range of half as many records about what to expect, and of one at each end."""
    low, high = ends
    each = variance * about
    if variance == 0 and claimed in ends:
        each = (expected - low) * (high - expected)
    elif low < claimed < high:
        changed = (expected - low) * (high - expected) / ((claimed - low) * (high - claimed))
        each = max(each, each * changed)
    pieces = [(max(about / 2, 2.0), expected, each), (1.0, low, 0.0), (1.0, high, 0.0)]
    total = sum(count for count, _, _ in pieces)
    mean = sum(count * value for count, value, _ in pieces) / total
    spread = sum(count * (own + (value - mean) ** 2) for count, value, own in pieces) / total
    half = 1.96 * math.sqrt(spread / total + more)
    return max(mean - half, low), min(mean + half, high)


def optimism(once: np.ndarray, again: np.ndarray) -> float:
    """Return the luck of choosing: 1 / luck^2 is as far below that of resamples as that of theirs.

    From what is gained in resamples to its double variance; the former where signs differ.
    """
    first, second = np.nanmean(once), np.nanmean(again)
    if first * second <= 0:
        return float(first)
    inverse = 2 / first**2 - 1 / second**2
    return float(np.sign(first) / np.sqrt(np.clip(inverse, 0.5 / first**2, 1 / first**2)))


def refit_changes(
    values: np.ndarray, counts: np.ndarray, fold_of: np.ndarray, variance: np.ndarray
) -> list[tuple[float, float]]:
    """Return for each design by how much fitting anew moves a share, and what is left, record by
    record.

    ``values`` and ``counts`` (models, designs, records): what a record adds to the share, and
    whether it is about it; the last model is the one fitted on all folds.
    """
    folds, designs = len(values) - 1, values.shape[1]

    def share(k: int, i: int, rows: Sequence[int]) -> float:
        about = [r for r in rows if counts[k, i, r]]
        return sum(float(values[k, i, r]) for r in about) / len(about) if about else math.nan

    records = range(len(fold_of))
    products = squares = 0.0
    for i in range(designs):
        for k in range(folds):
            others = [j for j in range(folds) if j != k]
            fold = [r for r in records if fold_of[r] == k]
            seen = 0.0
            for j in others:
                both = [r for r in records if fold_of[r] not in (j, k)]
                seen += (share(k, i, both) - share(j, i, both)) / len(others)
            unseen = share(k, i, fold) - sum(share(j, i, fold) for j in others) / len(others)
            if not math.isnan(seen + unseen):
                products += seen * unseen
                squares += seen**2
    beta = min(max(products / squares, 0.0), 1.0) if squares else 0.0
    found, spread = [], []
    for i in range(designs):
        trained = [share(k, i, [r for r in records if fold_of[r] != k]) for k in range(folds)]
        found.append(beta * (share(folds, i, records) - sum(trained) / folds))
        whole = [share(k, i, records) for k in range(folds)]
        spread.append(float(np.var(whole, ddof=1)))
    some = [i for i in range(designs) if not math.isnan(spread[i]) and variance[i] > 0]
    ratio = sum(spread[i] for i in some) / sum(variance[i] for i in some) if some else 0.0
    left = [
        (1 + 1 / folds) * (1 - beta) * (spread[i] + ratio * variance[i]) / 2 for i in range(designs)
    ]
    return [
        (0.0 if math.isnan(moved) else moved, 0.0 if math.isnan(rest) else rest)
        for moved, rest in zip(found, left, strict=True)
    ]
