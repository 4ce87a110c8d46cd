"""Bit scoring, the hash table and the search for missing sub-classifiers, against naive twins."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.moves.bits import pack, popcount, words_for
from algorithms.multistage import metrics
from algorithms.multistage.bit_planes import ComponentTable, features_of
from algorithms.multistage.kernels import decisions
from algorithms.multistage.kernels import scoring as kernels
from framework.arrays import frozen
from framework.components import Components
from framework.space import Partition
from tests import oracles


def key_of(features, n):
    mask = np.zeros(n, dtype=bool)
    mask[list(features)] = True
    return pack(mask)


def made_up(seed, n, records, classes, removal, positive=1, candidates=6):
    """Return genomes and made-up probabilities for each feature set they need."""
    rng = np.random.default_rng(seed)
    X = Partition(n, min(n, 5), removal).sample(rng, candidates)
    needed = {features for x in X.tolist() for features in oracles.feature_sets(x)}
    labels = rng.integers(classes, size=records)
    probabilities = {f: rng.dirichlet(np.full(classes, 0.4), size=records) for f in needed}
    return X, probabilities, labels


def table_of(probabilities, labels, thresholds, n, positive):
    planes = 2 if positive < 0 else 3
    keys = np.array([key_of(features, n) for features in probabilities])
    bits = np.zeros((len(keys), planes, words_for(len(labels))), dtype=np.uint64)
    for i, P in enumerate(probabilities.values()):
        about = thresholds, labels, positive, 1e-9, np.zeros(0)
        decisions.decide(np.ascontiguousarray(P.T), *about, bits[i])
    table = ComponentTable(words_for(n), planes, words_for(len(labels)))
    table.add(Components(keys, bits))
    return table


@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 3, 9, 64, 65, 130]),
    st.sampled_from([1, 40, 64, 65, 200]),
    st.sampled_from([2, 3]),
    st.booleans(),
    st.booleans(),
)
def test_scores_are_those_of_records_sent_one_by_one(
    seed, n, records, classes, removal, with_positive
):
    positive = 1 if with_positive else -1
    X, probabilities, labels = made_up(seed, n, records, classes, removal)
    thresholds = np.linspace(0.9, 0.6, classes)
    costs = np.arange(n) % 7
    table = table_of(probabilities, labels, thresholds, n, positive)
    panel_of = np.random.default_rng(seed).integers(-1, 3, n)
    charged = panel_of, np.array([5, 0, 11])
    panels = [(set(np.flatnonzero(panel_of == g).tolist()), c) for g, c in enumerate((5, 0, 11))]
    charges = kernels.Charges(*map(frozen, (costs, *charged)))._replace(of_stage=seed % 3)
    of_records = frozen(pack(np.ones(records, dtype=bool))), frozen(pack(labels != positive)), None
    counts, _, _ = kernels.score(X, table.held, 0, charges, *of_records)
    known = probabilities, labels.tolist(), thresholds.tolist()
    priced = [Fraction(int(c)) for c in costs], positive, panels, seed % 3
    for x, row in zip(X.tolist(), counts.tolist(), strict=True):
        want = oracles.cascade(x, *known, *priced)
        assert Fraction(row[kernels.CONCLUSIVE], records) == want["coverage"]
        assert Fraction(row[kernels.RIGHT], max(row[kernels.CONCLUSIVE], 1)) == want["accuracy"]
        assert Fraction(row[kernels.COST], records) == want["cost"]
        assert row[kernels.STAGES] == want["stages"]
        if with_positive:
            negatives = max(row[kernels.NEGATIVE], 1)
            assert Fraction(row[kernels.FALSE_POSITIVE], negatives) == want["false_positive_rate"]


def test_first_word_says_where_the_records_begin():
    X, probabilities, labels = made_up(0, 4, 100, 2, False)
    table = table_of(probabilities, labels, np.full(2, 0.7), 4, 1)
    wide = np.concatenate([np.full_like(table.bits[:, :, :1], 2**64 - 1), table.bits], axis=2)
    costs, everyone = np.ones(4, dtype=np.int64), pack(np.ones(100, dtype=bool))
    panels = np.full(4, -1), np.zeros(0, dtype=np.int64)
    charges = kernels.Charges(*map(frozen, (costs, *panels)))
    arguments = charges, frozen(everyone), frozen(pack(labels != 1)), None
    plain, _, _ = kernels.score(X, table.held, 0, *arguments)
    shifted, _, _ = kernels.score(X, table.held._replace(bits=wide), 1, *arguments)
    assert np.array_equal(plain, shifted)


@given(
    st.integers(0, 10_000),
    st.integers(1, 6),
    st.sampled_from([1, 63, 64, 65, 130]),
    st.integers(2, 4),
    st.booleans(),
)
def test_classes_are_counted_where_their_records_leave(seed, n, records, classes, removal):
    X, probabilities, labels = made_up(seed, n, records, classes, removal)
    thresholds = np.linspace(0.9, 0.6, classes)
    table = table_of(probabilities, labels, thresholds, n, -1)
    zeros, everyone = frozen(np.zeros(n, dtype=np.int64)), pack(np.ones(records, dtype=bool))
    free = kernels.Charges(zeros, zeros, zeros[:0])
    of_records = frozen(everyone), frozen(everyone), None
    _, answered, right = kernels.score(X, table.held, 0, free, *of_records, labels, classes)
    present = np.bincount(labels, minlength=classes)
    found = metrics.by_class(answered, right, present)
    for i, x in enumerate(X.tolist()):
        want = oracles.cascade(
            x, probabilities, labels.tolist(), thresholds.tolist(), [Fraction(1)] * n, -1
        )
        assert answered[i].sum() == want["coverage"] * records
        for name, values in found.items():
            assert values[i] == pytest.approx(float(want[name]), abs=1e-15)


@given(
    st.integers(0, 10_000), st.sampled_from([1, 5, 64, 65, 130]), st.integers(1, 40), st.booleans()
)
def test_missing_names_each_needed_set_once(seed, n, candidates, removal):
    rng = np.random.default_rng(seed)
    X = Partition(n, min(n, 6), removal).sample(rng, candidates)
    needed = list(dict.fromkeys(f for x in X.tolist() for f in oracles.feature_sets(x)))
    held = [f for f in needed if rng.random() < 0.4]
    table = ComponentTable(words_for(n), 2, 1)
    if held:
        keys = np.array([key_of(features, n) for features in held])
        table.add(Components(keys, np.zeros((len(held), 2, 1), dtype=np.uint64)))
    found = kernels.missing(X, table.slots, table.keys)
    assert [frozenset(features_of(key, n)) for key in found] == [f for f in needed if f not in held]


@given(st.lists(st.lists(st.integers(0, 2**20), max_size=400), max_size=5), st.sampled_from([1, 3]))
def test_component_table_finds_what_was_added_and_nothing_else(batches, words):
    """Keys that differ in one word alone; batches that repeat what is held."""
    table = ComponentTable(words, 2, 1)
    order = []
    for batch in batches:
        fresh = list(dict.fromkeys(batch))
        keys = np.zeros((len(fresh), words), dtype=np.uint64)
        keys[:, -1] = fresh
        bits = np.repeat(keys[:, -1:, None], 2, axis=1)
        table.add(Components(keys, bits, [b"%d" % number for number in fresh]))
        order += [number for number in fresh if number not in order]
    assert table.n == len(order)
    probe = np.zeros(words, dtype=np.uint64)
    for position, number in enumerate(order):
        probe[-1] = number
        assert table.find(probe) == position
        assert table.bits[position, 1, 0] == number
    probe[-1] = 2**20 + 1
    assert table.find(probe) < 0


@given(st.integers(0, 2**64 - 1))
def test_popcount(word):
    assert popcount(np.uint64(word)) == word.bit_count()


@given(st.integers(0, 2**32 - 1), st.integers(0, 16), st.integers(0, 2))
def test_planes_say_numbers(seed, count, first):
    numbers = np.random.default_rng(seed).integers(0, 2**count, 320)
    planes = pack(numbers >> np.arange(-first, count)[:, None].clip(0) & 1)
    said, lanes = np.empty(128, dtype=np.uint16), np.empty(16, dtype=np.uint64)
    for start in (0, 128, 256):  # the last block has half as many records
        kernels._numbers(planes, first, first + count, start, lanes, said)
        stop = min(start + 128, 320)
        assert said[: stop - start].tolist() == numbers[start:stop].tolist()
    assert [kernels._width(n) for n in numbers.tolist()] == [
        n.bit_length() for n in numbers.tolist()
    ]
