"""The experiment on what fronts promise: its truth by hand, and a call that goes on."""

from __future__ import annotations

import json

import numpy as np
import promises
import pytest


@pytest.fixture(scope="module")
def row():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(promises, "FRESH", 300)
        yield promises.measured("noise", "gaussian_nb", 3, 40, False)


def test_a_row_has_what_members_promise_and_are_worth(row):
    assert 1 <= len(row["members"]) <= promises.MEMBERS
    for member in row["members"]:
        for claimed, expected, low, high, true in member.values():
            assert low <= high
            assert np.isfinite([claimed, expected]).all()
            assert np.isnan(true) or true >= 0
    assert set(row["picks"]) == set(row["limits"]) == {"best accuracy", "least cost", "edge"}


@pytest.mark.parametrize("data", promises.DATA)
def test_records_are_those_of_the_seed(data):
    made = [promises.DATA[data](np.random.default_rng(1), 500) for _ in range(2)]
    assert np.array_equal(made[0][0], made[1][0])
    assert made[0][0].shape[1] == 5
    assert len(np.unique(made[0][1])) == (4 if data == "rings" else 2)


def test_a_call_goes_on_where_one_was_stopped(row, tmp_path, monkeypatch, capsys):
    file = tmp_path / "rows.jsonl"
    line = json.dumps(row)
    file.write_text(f"{line}\n{line[:50]}\n")
    assert len(promises.read_rows(file, 40, False)) == 1
    assert promises.read_rows(file, 300, False) == []
    assert promises.read_rows(file, 40, True) == []
    monkeypatch.setattr(promises, "measured", lambda *task: pytest.fail(f"measured again: {task}"))
    words = ["--seeds", "1", "--first", "3", "--evaluations", "40", "--data", "noise"]
    assert promises.main([*words, "--classifiers", "gaussian_nb", "--out", str(tmp_path)]) == 0
    assert "| noise | gaussian_nb | 1 |" in capsys.readouterr().out
