"""How the records of a table are divided: groups, copies, times and named parts."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.data.columns import TableOptions
from framework.data.divisions import divide, same_rows
from framework.data.splits import MeasureConfig, SplitConfig
from framework.data.tables import Raw, assemble
from framework.errors import InputError
from framework.experiment.config import check
from tests.conftest import examples

FOLDS = MeasureConfig.model_validate({"kind": "cross_validation", "folds": 4})


def table(frame, **split):
    """Return a table with the columns that a split names, and the split."""
    config = check(SplitConfig, split, "problem.split")
    raw = Raw(frame, "records", "the records")
    return assemble(raw, "problem.dataset", TableOptions(), config.columns), config


def divided(frame, measure=FOLDS, **split):
    made, config = table(frame, **split)
    return divide(made, config, measure)


def records(n=60, seed=0, **columns):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    return frame.assign(**columns, target=np.arange(n) % 2)


def parts_of(found):
    """Return the number of the part of each record, and of its fold or -1 in each repeat."""
    n = sum(map(len, found.split))
    part = np.full(n, -1)
    for number, rows in enumerate(found.split):
        part[rows] = number
    folds = np.full((len(found.repeats), n), -1)
    for numbers, repeat in zip(folds, found.repeats, strict=True):
        for number, fold in enumerate(repeat):
            numbers[found.split.pooled[fold.held_out]] = number
    return part, folds


@examples(40)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=14, max_size=40),
    seed=st.integers(0, 2**30),
    repeats=st.integers(1, 2),
)
def test_no_group_is_in_two_parts_or_folds(sizes, seed, repeats):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    order = np.random.default_rng(seed).permutation(len(groups))
    frame = records(len(groups), seed, who=groups[order])
    measure = MeasureConfig(kind="cross_validation", folds=4, repeats=repeats, refit=True)
    try:
        found = divided(frame, measure, group="who", seed=seed)
    except InputError:  # a class or a part may be lost to large groups
        return
    part, folds = parts_of(found)
    assert part.min() == 0
    for numbers in (part, *folds):
        assert all(len(set(numbers[frame["who"] == who])) == 1 for who in range(len(sizes)))
    assert ((folds >= 0) == (part < 2)).all()
    for share, number in zip((0.5, 0.25, 0.25), range(3), strict=True):
        assert abs((part == number).sum() - share * len(groups)) <= 2 * max(sizes)
    assert (np.unique(found.units, return_inverse=True)[1] == found.units).all()


def test_groups_share_classes_and_repeats_differ():
    rng = np.random.default_rng(3)
    who = rng.integers(0, 80, 600)
    frame = records(600, who=who).assign(target=rng.permutation(80)[who] % 4 == 0)
    measure = MeasureConfig(kind="cross_validation", folds=5, repeats=2, refit=True)
    found = divided(frame, measure, group="who")
    part, folds = parts_of(found)
    share = frame["target"].mean()
    for number in range(3):
        assert abs(frame["target"][part == number].mean() - share) < 0.05
    assert not np.array_equal(*folds)
    again = divided(frame, measure, group="who", seed=1)
    assert not np.array_equal(parts_of(again)[0], part)


def test_without_groups_or_copies_it_is_the_split_that_it_was():
    frame = records(40)
    found = divided(frame, None)
    assert found.split.test.tolist() == [2, 7, 8, 11, 12, 15, 18, 21, 27, 36]
    crossed = divided(frame)
    assert crossed.split.test.tolist() == found.split.test.tolist()
    assert found.fingerprint == crossed.fingerprint == ""
    assert crossed.repeats[0][0].held_out.tolist() == [5, 8, 9, 11, 21, 24, 25, 29]


def test_copies_stay_together_in_folds_and_as_before_with_validation_records():
    frame = records(80)
    twins = pd.concat([frame, frame.iloc[:30], frame.iloc[:10]], ignore_index=True)
    found = divided(twins)
    part, (folds,) = parts_of(found)
    rows = same_rows(twins[["a", "b"]])
    for numbers in (part, folds):
        assert all(len(set(numbers[rows == row])) == 1 for row in range(80))
    assert "40 of 120 records have the features of another one" in found.notes[0]
    assert found.fingerprint
    apart = divided(twins, copies="apart")
    plain = divided(twins, None)
    assert np.array_equal(apart.split.test, plain.split.test)
    assert not apart.notes
    assert plain.notes[0].startswith("40 of 120 records have the features of another one and are d")
    assert not divided(twins.assign(day=range(120)), None, time="day").notes
    assert plain.fingerprint == ""
    few = divided(pd.concat([frame] * 3, ignore_index=True))
    assert "160 of 240 records have the features of another one and are divided" in few.notes[0]
    assert len(set(few.units)) == 240
    part, _ = parts_of(divided(twins, None, copies="together"))
    assert all(len(set(part[rows == row])) == 1 for row in range(80))


def test_groups_that_share_a_record_are_one():
    frame = records(60, who=np.arange(60) // 3)
    frame.loc[[5, 30, 59], ["a", "b"]] = 1.0  # of groups 1, 10, 19
    found = divided(frame, group="who")
    linked = found.units[[3, 4, 5, 30, 31, 32, 57, 58, 59]]
    assert len(set(linked)) == 1
    assert len(set(found.units)) == 18


@pytest.mark.parametrize("window", ["growing", "sliding"])
def test_days_may_be_dates_or_categories(window):
    days = pd.date_range("2023-10-01", periods=40)
    texts = divided(records(40, seen=days.strftime("%Y-%m-%d")), time="seen", window=window)
    for column in (days.date, pd.Categorical(days.strftime("%Y-%m-%d"))):
        again = divided(records(40, seen=column), time="seen", window=window)
        for fold, other in zip(texts.repeats[0], again.repeats[0], strict=True):
            assert np.array_equal(fold.train, other.train)


@pytest.mark.parametrize("window", ["growing", "sliding"])
def test_folds_follow_each_other_in_time(window):
    days = pd.date_range("2026-01-01", periods=50).repeat(2)
    order = np.random.default_rng(0).permutation(100)
    frame = records(100, seen=days.strftime("%d.%m.%Y").to_numpy()[order])
    found = divided(frame, time="seen", window=window)
    when = np.asarray(days)[order]
    train, validation, test = (when[rows] for rows in found.split)
    assert train.max() < validation.min()
    assert validation.max() < test.min()
    assert [len(rows) for rows in found.split] == [50, 24, 26]
    pooled = when[found.split.pooled]
    (folds,) = found.repeats
    held = [set(pooled[fold.held_out]) for fold in folds]
    first = set(pooled[folds[0].train])
    for number, fold in enumerate(folds):
        assert pooled[fold.train].max() < pooled[fold.held_out].min()
        before = [first, *held[:number]]
        wanted = set().union(*before) if window == "growing" else before[-1]
        assert set(pooled[fold.train]) == wanted
    assert len(set().union(first, *held)) == len(set(pooled))


def test_a_group_is_as_late_as_its_last_record():
    rng = np.random.default_rng(1)
    frame = records(90, who=rng.integers(0, 30, 90), year=rng.permutation(90))
    found = divided(frame, None, group="who", time="year")
    part, _ = parts_of(found)
    assert all(len(set(part[frame["who"] == who])) == 1 for who in set(frame["who"]))
    last = frame.groupby("who")["year"].transform("max")
    assert last[part == 0].max() < last[part == 1].min()
    assert frame["year"][part == 0].max() < last[part > 0].min()  # nothing is learnt from later


def test_columns_name_parts_and_folds():
    part = np.array(["train", "Test ", "train", "validation"])[np.arange(60) // 2 % 4]
    found = divided(records(60, part=part), None, part="part")
    assert found.split.validation.tolist() == [i for i in range(60) if i // 2 % 4 == 3]
    frame = records(60, part=part, block=np.arange(60) // 20)
    crossed = divided(frame, part="part", fold="block")
    _, (folds,) = parts_of(crossed)
    assert set(folds.tolist()) == {-1, 0, 1, 2}
    assert (folds[folds >= 0] == frame["block"][folds >= 0]).all()
    table_of, _ = table(frame, part="part", fold="block")
    assert list(table_of.features) == ["a", "b"]


def two(values):
    return np.array(values)[np.arange(60) // 2 % len(values)]


@pytest.mark.parametrize(
    ("columns", "split", "sentence"),
    [
        ({"g": 1}, {"group": "g"}, "group: expected two groups or more in 'g', found one, '1'; "),
        ({"g": two([1, 2])}, {"group": "g"}, "expected a group for each of 3 parts, found 2 in"),
        ({"g": two(range(4))}, {"group": "g"}, "folds: expected at most the"),
        ({}, {"group": "gruppe"}, "split.group: expected a column 'gruppe', found none"),
        ({"target": 1}, {"group": "target"}, "expected another column than the target"),
        (
            {"t": two(["x", "y"])},
            {"time": "t"},
            "time: expected numbers or dates in 't', found 'x'",
        ),
        ({"t": two([1, 2])}, {"time": "t"}, "as many different times as parts, 3 or more"),
        ({"t": two(range(6))}, {"time": "t"}, "different times as folds and one more, 5"),
        ({"t": two([1, None])}, {"time": "t"}, "a value of 't' in each record, found 30"),
        ({"p": two(["train", "tst"])}, {"part": "p"}, "expected train, validation, test in 'p'"),
        ({"p": two([1, 2])}, {"part": "p"}, "in 'p', found '1' in record 1"),
        ({"p": two(["test"])}, {"part": "p"}, "expected train records in 'p', found none"),
        ({"f": 1}, {"fold": "f"}, "expected two folds or more in 'f', found 1 among"),
        (
            {"f": two([1, 2, 3]), "g": np.arange(60) // 3},
            {"fold": "f", "group": "g"},
            "in one fold, found records",
        ),
        ({"t": np.arange(60)}, {"time": "t", "fold": "t"}, "time without part or fold"),
        ({}, {"window": "sliding"}, "window only with time, found window: sliding"),
    ],
)
def test_mistakes(columns, split, sentence):
    frame = records(60).assign(**columns)
    frame["target"] = np.arange(60) % 2
    with pytest.raises(InputError) as caught:
        divided(frame, **split)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_folds_that_lose_a_class_are_refused():
    frame = records(60, g=np.arange(60) // 6)
    frame["target"] = (frame["g"] == 3).astype(int)  # one group has the class
    with pytest.raises(InputError, match="found none of"):
        divided(frame, group="g")


def test_repeats_need_chance():
    measure = MeasureConfig(kind="cross_validation", folds=2, repeats=2, refit=True)
    with pytest.raises(InputError, match=r"expected 1 with split.time, found 2"):
        divided(records(60, t=np.arange(60)), measure, time="t")


def test_equal_rows_have_one_code():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": rng.integers(0, 3, 200).astype(float),
            "y": np.where(rng.random(200) < 0.3, np.nan, -0.0),
            "z": pd.Categorical(np.array(["u", "v"])[rng.integers(0, 2, 200)]),
        }
    )

    plain = frame.replace(-0.0, 0.0)
    keys = [tuple(map(str, row)) for row in plain.itertuples(index=False)]
    order = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    assert same_rows(frame).tolist() == [order[key] for key in keys]
