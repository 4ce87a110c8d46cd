"""Libraries made up for tests: predictions that know the truth by noise, and made-up costs."""

from dataclasses import replace
from typing import Any

import numpy as np

from framework.arrays import Array
from framework.libraries.library import Cost, Library


def predictions(k: int, y: Array, classes: int, rng: np.random.Generator) -> Array:
    """Return predictions of ``k`` models, float32, as a library holds them."""
    if classes == 0:
        spread = rng.uniform(0.2, 2, (k, 1))
        return (y + spread * rng.normal(size=(k, len(y)))).astype(np.float32)
    skill = rng.uniform(0.2, 1.5, (k, 1, 1))
    scores = rng.normal(size=(k, len(y), classes)) + skill * np.eye(classes)[y]
    P = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    return (P[:, :, 1] if classes == 2 else P).astype(np.float32)


def made_up(k: int = 8, n: int = 60, m: int = 40, classes: int = 2, seed: int = 0) -> Library:
    """Return a library of ``k`` models, ``n`` validation and ``m`` test records."""
    rng = np.random.default_rng(seed)

    def truth(records: int) -> Array:
        if classes == 0:
            return rng.normal(size=records)
        return rng.permutation(np.arange(records) % classes)

    y, y_test = truth(n), truth(m)
    names = ["no", "yes", "maybe", "perhaps", "never"]
    configs: list[dict[str, Any]] = [
        {"family": "ab"[j % 2], "depth": int(rng.integers(1, 9)), "deep": {"rate": j / k}}
        for j in range(k)
    ]
    return Library(
        ids=tuple(f"model_{j}" for j in range(k)),
        validation=predictions(k, y, classes, rng),
        y_validation=y,
        classes=tuple(names[:classes]) if classes else None,
        costs={
            "inference_time": Cost(rng.uniform(0.1, 5, k), "ms/1000 rows"),
            "memory": Cost(rng.uniform(1, 90, k), "MB"),
        },
        test=predictions(k, y_test, classes, rng),
        y_test=y_test,
        configs=tuple(configs),
    )


def checked(library: Library, **changes: Any) -> Library:
    """Return a made-up library of classes as one that was checked, and may be saved."""
    names = np.array(library.classes, dtype=object)
    parts = {
        "costs": library.costs,
        "test": library.test,
        "y_test": names[library.y_test],
        "configs": library.configs,
    }
    labels = names[library.y_validation]
    return Library.from_arrays(
        library.ids, library.validation, labels, library.classes, **parts | changes
    )


def repeated(library: Library, weights: np.ndarray) -> Library:
    """Return a library with each validation record as often as it weighs."""
    return replace(
        library,
        validation=np.repeat(library.validation, weights, axis=1),
        y_validation=np.repeat(library.y_validation, weights),
    )
