"""Tables of calls made up for tests: with ties, infinite confidences and free calls."""

from typing import Any

import numpy as np

from algorithms.cascade.problem import CascadeProblem
from framework.libraries.calls import CallTable


def made_up(
    k: int = 3, n: int = 40, seed: int = 0, *, tied=False, infinite=True, **more: Any
) -> CallTable:
    """Return ``k`` models of rising skill and price, and their probabilities of three classes."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n)
    skill = np.linspace(0.6, 2.5, k)[:, None, None]
    scores = rng.normal(size=(k, n, 3)) + skill * np.eye(3)[truth]
    P = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    if tied:
        P = np.round(P * 4 + 0.5) / 4
        P = P / P.sum(axis=2, keepdims=True)
    said = P.argmax(axis=2)
    costs = 2.0 ** np.arange(k)[:, None] * rng.integers(1, 4, size=(k, n))
    confidence = P.max(axis=2)
    if tied and infinite:
        confidence[rng.random(confidence.shape) < 0.1] = np.inf
    labels = ["a", "b", "c"]
    given: dict[str, Any] = {
        "answers": np.array(labels, dtype=object)[said],
        "truth": np.array(labels, dtype=object)[truth],
        "labels": labels,
        "probabilities": P,
        **more,
    }
    names = [f"m{i}" for i in range(k)]
    return CallTable.from_arrays(
        names,
        said == truth[None],
        confidence,
        {"cost": costs / 1000, "latency_ms": 10.0 * costs},
        **given,
    )


def calls_of(table: CallTable, answer: str, r: int) -> Any:
    """Return what the reference evaluator calls: it says what a model replies to a record."""

    def ask(name: str) -> Any:
        m = table.ids.index(name)
        if answer == "cumulative_mean":
            return table.probabilities[m, r].astype(float).tolist()
        return table.labels[table.answers[m, r]], float(table.confidence[m, r])

    return ask


def cascades(k: int = 3, n: int = 40, seed: int = 0, **more: Any) -> CascadeProblem:
    """Return a problem on a made-up table, with test records."""
    return CascadeProblem(made_up(k, n, seed), test=made_up(k, 30, seed + 1), **more)
