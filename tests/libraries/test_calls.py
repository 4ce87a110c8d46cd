"""Tables of calls: what is taken from each layout, and what is refused in a sentence."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from framework.errors import InputError
from framework.libraries.call_files import calls_of, read_calls
from framework.libraries.calls import CallTable, whole_cost
from tests.made_up_libraries import made_up


def wide(**more):
    return pd.DataFrame(
        {
            "record": ["r1", "r2", "r3"],
            "small:correct": [1, 0, 1],
            "small:confidence": [-0.1, -np.inf, 0.4],
            "small:latency_ms": [3.0, 4.0, 5.0],
            "small:cost": [1e-6, 2e-6, 3e-6],
            "large:correct": [1, 1, 0],
            "large:confidence": [9, 8, np.inf],
            "large:latency_ms": [30.0, 40.0, 50.0],
            "large:cost": [1e-4, 2.5e-4, 0.0],
            **more,
        }
    )


def test_a_wide_table_is_read_exactly(tmp_path):
    wide().to_csv(tmp_path / "calls.csv.gz", index=False)
    table = read_calls(tmp_path / "calls.csv.gz")
    assert table.ids == ("small", "large")
    assert list(table.costs) == ["cost", "latency_ms"]  # what is paid comes first
    assert table.costs["cost"].values.tolist() == [[1000, 2000, 3000], [100_000, 250_000, 0]]
    assert table.right.tolist() == [[True, False, True], [True, True, False]]
    assert table.confidence[0, 1] == -np.inf
    assert table.records == ("r1", "r2", "r3")
    wide().to_parquet(tmp_path / "calls.parquet")
    assert read_calls(tmp_path / "calls.parquet") == table


def test_a_long_table_is_the_same_table(tmp_path):
    plain = wide()
    rows = [
        {"record": r["record"], "model": m}
        | {what: r[f"{m}:{what}"] for what in ("correct", "confidence", "cost", "latency_ms")}
        for m in ("small", "large")
        for _, r in plain.iterrows()
    ]
    long = pd.DataFrame(rows)
    long.to_csv(tmp_path / "long.csv", index=False)
    assert read_calls(tmp_path / "long.csv") == calls_of(plain)
    groups = long.assign(group=[1, 2, 3, 1, 4, 3])
    for table, sentence in (
        (long.drop(index=[4, 5]), r"none of 'large' for 2 records \(record 2 first\)"),
        (pd.concat([long, long[:1]]), "found two of 'small' to r1"),
        (groups, "expected one group of each record, found two of r2"),
    ):
        table.to_csv(tmp_path / "wrong.csv", index=False)
        with pytest.raises(InputError, match=sentence):
            read_calls(tmp_path / "wrong.csv")


def test_answers_and_the_truth_say_what_is_right():
    plain = wide(truth=["a", "b", "c"]).drop(columns=["small:correct", "large:correct"])
    plain["small:answer"], plain["large:answer"] = ["a", "a", "c"], ["a", "b", "a"]
    table = calls_of(plain)
    assert table.right.tolist() == [[True, False, True], [True, True, False]]
    assert table.labels == ("a", "b", "c")
    new = plain.assign(record=list("xyz"), truth="c", **{"small:answer": "b", "large:answer": "c"})
    coded = table.matched(calls_of(new))
    assert coded.answers.tolist() == [[1, 1, 1], [2, 2, 2]]
    assert coded.take(np.arange(3)) == coded  # the fingerprint is that of the codes


@pytest.mark.parametrize(
    ("truth", "small", "large", "right"),
    [
        ([18, 7, 3], [18, None, 3.5], ["18", "x", "3.0"], [[1, 0, 0], [1, 0, 1]]),
        (["NA", "01", 1], ["NA", "1", "01"], ["n", "01", 1], [[1, 0, 0], [0, 1, 1]]),
        ([True, False, True], [True, True, False], ["true", "no", True], [[1, 0, 0], [1, 0, 1]]),
    ],
)
def test_answers_have_one_spelling_whatever_others_are_in_their_column(
    truth, small, large, right, tmp_path
):
    plain = wide(truth=truth).drop(columns=["small:correct", "large:correct"])
    plain["small:answer"], plain["large:answer"] = small, large
    plain.to_csv(tmp_path / "calls.csv", index=False)
    assert calls_of(plain).right.tolist() == right
    assert read_calls(tmp_path / "calls.csv").right.tolist() == right
    with pytest.raises(InputError, match="1 without one in 'truth', the first in record 2"):
        calls_of(plain.assign(truth=["a", None, "b"]))
    with pytest.raises(InputError, match="1 without one in 'group', the first in record 3"):
        calls_of(plain.assign(group=[1, 1, None]))


@pytest.mark.parametrize("classes", [2, 3])
def test_a_library_is_a_table(classes):
    library = made_up(classes=classes)
    with pytest.raises(InputError, match=r"expected a cost of the models .*, found 'nosuch'"):
        CallTable.of(library, costs=["memory", "nosuch"])
    table = CallTable.of(library, costs=["memory"])
    assert table.right.mean(axis=1).tolist() == [
        np.mean((P > 0.5 if P.ndim == 1 else P.argmax(axis=1)) == library.y_validation)
        for P in library.validation
    ]
    assert (table.costs["memory"].values[:, 0] == table.costs["memory"].values[:, -1]).all()
    units = np.arange(len(library.y_validation)) // 2
    paired = CallTable.of(replace(library, units=units), costs=["memory"])
    assert paired.groups.tolist() == units.tolist()
    assert table.matched(CallTable.of(library, "test", ["memory"])).n == library.test.shape[1]
    with pytest.raises(InputError, match="regression"):
        CallTable.of(made_up(classes=0))


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"small:confidence": [0.1, np.nan, 0.2]}, "of each call, found none of 'small' for 1 rec"),
        ({"large:correct": [1, np.nan, np.nan]}, "none of 'large' for 2 records"),
        ({"large:cost": ["$0.10", "1", "2"]}, r"found the text '\$0.10'"),
        ({"large:cost": [1, -2, 3]}, "from 0, found -2"),
        ({"large:cost": [1, 1e300, 3]}, "larger unit"),
        ({"large:cost": [1, 10**400, 3]}, "expected numbers below 1e308"),
        ({"large:cost": [0, 4e-10, 3e-10]}, "less than a thousandth, found 3e-10; .* smaller unit"),
        ({"small:cost": [1.4e-9, 0, 0]}, "less than a thousandth, found 1.4e-09; .* smaller unit"),
        ({"small:correct": [1, 2, 0]}, "0 for a wrong, found 2"),
        ({"record": ["r1", "r1", "r2"]}, "'r1' twice"),
        ({"third:correct": [1, 1, 1]}, "third:confidence"),
    ],
)
def test_what_is_wrong_is_said(more, sentence):
    with pytest.raises(InputError, match=sentence):
        calls_of(wide(**more))


def test_small_costs_that_hardly_matter_are_rounded():
    table = calls_of(wide(**{"small:cost": [1, 1e-10, 2e-9], "large:cost": [0, 0, 3e-9]}))
    assert table.costs["cost"].values.tolist() == [[10**9, 0, 2], [0, 0, 3]]
    assert whole_cost(2e-9, 10, "errors") == 2
    with pytest.raises(InputError, match=r"errors: .* found 1e-10; give all costs in a smaller"):
        whole_cost(1e-10, 10, "errors")


def test_records_in_both_tables_are_refused():
    with pytest.raises(InputError, match="found 2 in both"):
        calls_of(wide()).matched(calls_of(wide(record=["r1", "r2", "r9"])))
    assert calls_of(wide()).matched(calls_of(wide(record=["a", "b", "c"]))).n == 3


def test_records_without_names_are_known_by_their_calls():
    tuning = calls_of(wide().drop(columns="record"))
    for rows in ([0, 1, 2], [2, 0]):
        with pytest.raises(InputError, match=f"found each of its {len(rows)} there"):
            tuning.matched(calls_of(wide().drop(columns="record").iloc[rows]))
    assert tuning.matched(calls_of(wide(**{"small:confidence": [1, 2, 0.4]}))).n == 3
    few = wide(**{f"{m}:{w}": 1 for m in ("small", "large") for w in ("confidence", "cost")})
    few = pd.concat([few.drop(columns="record")] * 3)  # such calls come again and again
    assert calls_of(few).matched(calls_of(few[:2])).n == 2


def test_taking_records_and_models():
    table = calls_of(wide())
    part = table.take(np.array([2, 0])).only(["large"])
    assert part.right.tolist() == [[False, True]]
    assert part.records == ("r3", "r1")
    assert part.fingerprint != table.fingerprint
    with pytest.raises(InputError, match="small, large"):
        table.only(["none"])
    with pytest.raises(InputError, match="each model once, found small, small"):
        table.only(["small", "small"])
