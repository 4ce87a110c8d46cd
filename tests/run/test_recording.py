"""Pending evaluations: values in any order and any pieces, batches back in the order proposed."""

from __future__ import annotations

import numpy as np
import pytest

from framework.batch import Evaluated
from framework.errors import ContractError
from framework.run.recording import PendingEvaluations


def genomes(ids):
    return np.stack([ids, ids * 10], axis=1)


def piece(ids):
    ids = np.asarray(ids, dtype=np.int64)
    errors = {id: f"error {id}" for id in ids.tolist() if id % 7 == 3}
    values = np.where(ids % 7 == 3, np.nan, ids * 0.5)
    return Evaluated(ids, genomes(ids), {"f": values}, errors)


def same(found, ids):
    expected = piece(ids)
    assert found.ids.tolist() == expected.ids.tolist()
    assert np.array_equal(found.X, expected.X)
    assert np.array_equal(found.values["f"], expected.values["f"], equal_nan=True)
    assert found.errors == expected.errors


@pytest.mark.parametrize("seed", range(20))
def test_batches_come_back_in_order_whatever_arrives_when(seed):
    rng = np.random.default_rng(seed)
    pending, asked, waiting, first, told = PendingEvaluations(["f"]), [], [], 0, 0
    fresh = set()
    while told < 40:
        if len(asked) < rng.integers(1, 6):
            ids = np.arange(first, first + rng.integers(1, 5))
            first += len(ids)
            pending.add(genomes(ids))
            asked.append(ids)
            # as it is, or row by row, or together with others
            waiting += [ids] if rng.random() < 0.6 else [ids[i : i + 1] for i in range(len(ids))]
        if len(waiting) > 1 and rng.random() < 0.2:
            joined = np.concatenate([waiting.pop(rng.integers(len(waiting))) for _ in range(2)])
            waiting.append(joined if rng.random() < 0.5 else np.sort(joined))
        if waiting:
            ids = waiting.pop(0 if rng.random() < 0.7 else rng.integers(len(waiting)))
            pending.receive(piece(ids), new=bool(ids[0] % 2))
            fresh |= set(ids.tolist()) if ids[0] % 2 else set()
        while asked and not pending.incomplete:
            rows, new = pending.pop()
            same(rows, asked.pop(0))
            wanted = [id for id in rows.ids.tolist() if id in fresh]
            assert (new is None) == (not wanted)
            if new is not None:
                same(new, np.array(wanted))
            told += 1


def test_what_came_as_a_whole_is_new_or_not_as_said():
    pending = PendingEvaluations(["f"])
    for first, new in ((0, True), (2, False)):
        pending.add(genomes(np.arange(first, first + 2)))
        pending.receive(piece(np.arange(first, first + 2)), new=new)
        rows, found = pending.pop()
        assert found is (rows if new else None)


@pytest.mark.parametrize("ids", [[0, 1], [1], [4], [2, 2], [3, 2, 2]])
def test_rows_that_are_known_or_unknown_or_come_twice_are_refused(ids):
    pending = PendingEvaluations(["f"])
    pending.add(genomes(np.arange(2)))
    pending.add(genomes(np.arange(2, 4)))
    pending.receive(piece([0, 1]), new=True)
    with pytest.raises(ContractError, match="expected"):
        pending.receive(piece(ids), new=True)


def test_other_genomes_are_refused_in_a_whole_batch_too():
    pending = PendingEvaluations(["f"])
    pending.add(genomes(np.arange(2)))
    wrong = Evaluated(np.arange(2), genomes(np.arange(2)) + 1, {"f": np.zeros(2)})
    with pytest.raises(ContractError, match="expected the genomes that were asked for"):
        pending.receive(wrong, new=True)
