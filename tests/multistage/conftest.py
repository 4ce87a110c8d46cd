"""A made-up table."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def table_file(tmp_path_factory):
    """Write a table of three classes, with categories and missing values."""
    rng = np.random.default_rng(0)
    n = 330
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["colour"] = rng.choice(["red", "green", "blue"], n)
    frame["d"] = rng.normal(size=n)
    score = frame["a"] + frame["b"] + (frame["colour"] == "red") + 0.5 * rng.normal(size=n)
    frame["label"] = np.where(score < -0.5, "low", np.where(score < 1, "middle", "high"))
    frame.loc[::11, "b"] = np.nan
    frame.loc[::13, "colour"] = None
    path = tmp_path_factory.mktemp("data") / "made_up.csv"
    frame.to_csv(path, index=False)
    return path
