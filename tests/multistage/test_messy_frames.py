"""A frame as people have them: what its columns hold is inferred as the command infers a table."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from framework.data.datasets import DatasetConfig, load_table
from paretolab import ParetoMultiStage

WORDS = np.array(["pain", "after", "the", "walk", "and", "fever", "since", "cough", "left", "side"])


def messy(n: int, seed: int = 0) -> pd.DataFrame:
    """Return n records of 18 columns and their label."""
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, n), unit="D")
    births = pd.Timestamp("1940-01-01") + pd.to_timedelta(rng.integers(0, 20000, n), unit="D")
    codes = rng.permutation(10**6)[:n]
    frame = pd.DataFrame(
        {
            "patient_id": codes,
            "row": np.arange(n),
            "uuid": [f"{code:06x}-{code * 7:08x}" for code in codes],
            "clinic": "north",
            "free_text": [" ".join(rng.choice(WORDS, 8)) for _ in range(n)],
            "visit_date": days.strftime("%d.%m.%Y"),
            "birth_date": births.strftime("%Y-%m-%d"),
            "sample_time": days + pd.to_timedelta(rng.integers(0, 86400, n), unit="s"),
            "sex": rng.choice(["f", "m"], n),
            "ward": pd.Categorical(rng.choice(["a", "b", "c", "d"], n)),
            "postcode": [f"P{code}" for code in rng.integers(0, n // 3, n)],
            "price": [f"{value:,}" for value in rng.integers(900, 20_000, n)],
            "smoker": rng.random(n) < 0.3,
            "empty": np.full(n, np.nan),
            **{f"lab{i}": rng.normal(size=n).round(4) for i in range(4)},
        }
    )
    ill = frame["lab0"] + frame["smoker"] + rng.normal(size=n) > 0.5
    for name in ("sex", "lab1", "visit_date"):
        frame.loc[rng.random(n) < 0.1, name] = None
    return frame.assign(target=np.where(ill, "ill", "well"))


def fitted(frame: pd.DataFrame, **more: Any) -> tuple[ParetoMultiStage, list[str]]:
    search = ParetoMultiStage(
        threshold=0.6, max_stages=2, remove_features=True, budget=30, measure="holdout", **more
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(frame.drop(columns="target"), frame["target"])
    return search, [str(w.message) for w in caught if str(w.message).startswith("column")]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return messy(900)


def test_a_frame_is_read_as_the_command_reads_its_table(frame, tmp_path):
    search, said = fitted(frame)
    frame.to_csv(tmp_path / "messy.csv", index=False)
    table = load_table(DatasetConfig(path=tmp_path / "messy.csv"))
    assert list(search.problem_.feature_names) == list(table.features.columns)
    left_out = {"patient_id", "row", "uuid", "clinic", "free_text", "empty"}
    assert left_out == set(table.left_out) - {"target"}
    kinds = [note.split(";")[0] for note in table.notes]
    assert [s.split(";")[0] for s in said] == [k for k in kinds if "sample_time" not in k]
    assert any("keep=['free_text'] takes it" in sentence for sentence in said)
    # no column is wider than its kind needs: the most frequent categories, and one for the others
    assert max(len(span) for span in search.model_.encoder_.spans) <= 101
    assert len(search.predict(frame.drop(columns="target"))) == len(frame)


def test_costs_are_of_the_columns_as_they_come(frame: pd.DataFrame) -> None:
    names = [name for name in frame if name != "target"]
    costs = dict(zip(names, range(1, len(names) + 1), strict=True))
    for given in (costs, list(costs.values()), pd.Series(costs)):
        search, _ = fitted(frame, costs=given)
        used = search.problem_.feature_names
        assert search.problem_.costs.tolist() == [costs[name] for name in used]


def test_what_is_left_out_may_be_kept(frame: pd.DataFrame) -> None:
    search, said = fitted(frame, keep=["free_text", "patient_id"])
    assert {"free_text", "patient_id"} <= set(search.problem_.feature_names)
    assert any("'free_text': 9" in sentence and "categories" in sentence for sentence in said)


def test_an_array_is_numbers_all_of_them_taken() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(200), np.ones(200), rng.normal(size=(200, 2))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = ParetoMultiStage(budget=10, max_stages=2, measure="holdout", remove_features=True)
        search.fit(X, X[:, 2] + X[:, 3] > 0)
    assert list(search.problem_.feature_names) == ["x0", "x1", "x2", "x3"]
