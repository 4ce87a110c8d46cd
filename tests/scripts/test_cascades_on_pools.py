"""What is said of cascades beside ensembles, from accuracies that are made up."""

from __future__ import annotations

import pandas as pd
import pytest
from cascades_on_pools import accuracies, ahead


def test_gains_are_counted_by_set_and_by_split():
    told = {
        ("a", 0): {"single": 0.5, "weighted": 0.6, "consensus": 0.9},
        ("a", 1): {"single": 0.5, "weighted": 0.4, "consensus": 0.3},
        ("b", 0): {"single": 0.7, "weighted": 0.2, "consensus": 0.6},
        ("b", 1): {"single": 0.7, "weighted": 0.2, "consensus": 0.6},
    }
    rows = [
        {"set": name, "split": split, "method": method, "budget": budget, "accuracy": value + move}
        for (name, split), values in told.items()
        for method, value in values.items()
        for budget, move in enumerate((-0.01, 0.01))
    ]
    found = ahead(accuracies(pd.DataFrame(rows)))
    single, weighted, best = (found.loc["consensus", m] for m in ("single", "weighted", "best"))
    assert (single["sets ahead"], single["splits ahead"]) == ("1 of 2", "1 of 2")
    assert single["gain"] == pytest.approx((0.1 - 0.1) / 2)
    assert (single["worst split"], single["best split"]) == pytest.approx((-0.15, 0.15))
    assert (single["most by"], single["without it"]) == ("a", pytest.approx(-0.1))
    assert weighted["gain"] == pytest.approx((0.1 + 0.4) / 2)
    assert weighted["error"] == pytest.approx(0.15)
    assert best["gain"] == pytest.approx((0.1 - 0.1) / 2)  # single on both: level on a
