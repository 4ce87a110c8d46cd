"""Splits: a partition, from the seed alone, with each class's share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.data.splits import MeasureConfig, SplitConfig, measure_folds, split_records
from framework.errors import InputError
from framework.experiment.config import check


def config(**raw):
    return check(SplitConfig, raw, "problem.split")


@given(
    counts=st.lists(st.integers(6, 60), min_size=2, max_size=5),
    seed=st.integers(0, 2**40),
    shares=st.sampled_from([(0.5, 0.25, 0.25), (0.6, 0.4, 0.0), (1 / 3, 1 / 3, 1 / 3)]),
    stratify=st.booleans(),
)
def test_parts_are_sorted_disjoint_and_whole(counts, seed, shares, stratify):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    train, validation, test = shares
    cfg = config(train=train, validation=validation, test=test, seed=seed, stratify=stratify)
    try:
        split = split_records(labels, cfg)
    except InputError:
        assert not stratify
        return
    assert np.array_equal(np.sort(np.concatenate(split)), np.arange(len(labels)))
    for part, share in zip(split, shares, strict=True):
        assert part.dtype == np.int64
        assert np.array_equal(part, np.unique(part))
        assert abs(len(part) - share * len(labels)) <= (len(counts) if stratify else 1)
        if stratify:
            per_class = np.bincount(labels[part], minlength=len(counts))
            assert np.all(np.abs(per_class - share * np.array(counts)) < 1)


def test_seed_alone_decides():
    labels = np.arange(200) % 3
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again = (split_records(labels, config(seed=4)) for _ in range(2))
    other = split_records(labels, config(seed=5))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first.train, other.train)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_a_known_split_stays_as_it_is():
    split = split_records(np.array([0, 1] * 8), config(seed=0))
    assert [len(part) for part in split] == [8, 4, 4]
    assert split.test.tolist() == [2, 3, 5, 12]


def test_left_over_records_go_round_the_parts():
    labels = np.repeat(np.arange(6), 6)  # 3, 1.5, 1.5 of each class
    split = split_records(labels, config())
    assert [len(part) for part in split] == [18, 9, 9]


def test_mistakes():
    with pytest.raises(InputError, match=r"expected train \+ validation \+ test = 1, found 1.1"):
        config(train=0.6)
    with pytest.raises(InputError, match="a number above 0"):
        config(train=0, validation=0.5, test=0.5)
    labels = np.array([0] * 40 + [1] * 3)
    with pytest.raises(InputError, match="expected records in the validation part, found none of"):
        split_records(np.arange(6) % 2, config(train=0.98, validation=0.01, test=0.01))
    with pytest.raises(InputError, match=r"of every class, found none of class 1 \(counted from 0"):
        split_records(labels, config(train=0.1, validation=0.5, test=0.4))


@pytest.mark.parametrize(
    ("counts", "helps"),
    [
        ([40, 30, 3, 3], True),
        ([230, 178, 177, 9, 2], True),
        ([40, 30, 3], True),
        ([40, 3], False),
        ([4, 3], False),
        ([230, 178, 2], False),  # a class of many records would be lost
    ],
)
def test_advice_on_folds_helps(counts, helps):
    labels = np.repeat(np.arange(len(counts)), counts)
    measure = MeasureConfig(kind="cross_validation", folds=5)
    advice = "merge rare classes with dataset.merge_rare, or " if helps else ""
    with pytest.raises(InputError, match=f"split.test, or {advice}remove its records$"):
        measure_folds(labels, measure, 0, list("abcde")[: len(counts)])
    merged = [np.where(np.array(counts)[labels] < least, -1, labels) for least in range(50)]
    left = [np.unique(found, return_counts=True)[1] for found in merged]
    assert helps == any(len(sizes) > 1 and sizes.min() >= 5 for sizes in left)
