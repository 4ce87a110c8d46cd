"""The command: several trials of one experiment."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from tests.cli.places import NO_RAY, front_of
from tests.command import assert_each_row_once


def check_trials(directory):
    trials = sorted((directory / "trials").iterdir())
    assert [trial.name for trial in trials] == ["000", "001", "002"]
    summaries = [json.loads((trial / "summary.json").read_text()) for trial in trials]
    assert len({summary["seed"] for summary in summaries}) == 3
    assert summaries[0]["seed"] == 0
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["status"] == "done"
    assert summary["trials"] == 3
    assert summary["evaluations"] == sum(s["evaluations"] for s in summaries)
    volumes = [s["indicators"]["hypervolume"] for s in summaries]
    assert summary["indicators"]["hypervolume"] == pytest.approx(np.mean(volumes))
    for trial in trials:
        assert_each_row_once(trial / "journal.sqlite")
    union = pd.read_csv(directory / "front.csv")
    fronts = [pd.read_csv(trial / "front.csv") for trial in trials]
    together = pd.concat(fronts, ignore_index=True)[["coverage", "accuracy", "cost"]]
    losses = together.to_numpy() * [-1, -1, 1]
    best = [
        row
        for row in losses
        if not any((other <= row).all() and (other < row).any() for other in losses)
    ]
    found = union[["coverage", "accuracy", "cost"]].to_numpy() * [-1, -1, 1]
    assert {tuple(row) for row in found} == {tuple(row) for row in best}
    for _, row in union.iterrows():
        source = fronts[int(row["trial"])].set_index("id").loc[int(row["trial_id"])]
        assert source["cost"] == row["cost"]
        assert source["test_cost"] == row["test_cost"]


@pytest.fixture(scope="module")
def three_trials(command, place):
    done = command("run", "small.yaml", "--out", "trials", "--trials", "3")
    assert done.code == 0, done.err
    done.dir = place / "trials"
    return done


def test_trials_one_by_one(three_trials, finished):
    check_trials(three_trials.dir)
    assert three_trials.err.count("evaluations, front") == 3
    assert front_of(three_trials.dir / "trials" / "000") == front_of(finished.dir)


@pytest.mark.skipif(NO_RAY, reason="no Ray here")
def test_trials_on_ray_have_the_same_fronts(three_trials, command, place):
    done = command("run", "small.yaml", "--out", "ray trials", "--trials", "3", "--workers", "2")
    assert done.code == 0, done.err
    check_trials(place / "ray trials")
    assert front_of(place / "ray trials") == front_of(three_trials.dir)
    assert not (place / "ray trials" / ".token").exists()


def test_resume_adds_trials_and_leaves_the_others_alone(three_trials, command):
    before = (three_trials.dir / "trials" / "001" / "journal.sqlite").stat().st_mtime_ns
    done = command("resume", "trials", "--set", "trials=4")
    assert done.code == 0, done.err
    assert len(list((three_trials.dir / "trials").iterdir())) == 4
    after = (three_trials.dir / "trials" / "001" / "journal.sqlite").stat().st_mtime_ns
    assert after == before


def test_choose_from_trials(three_trials, command, place):
    done = command("choose", "trials", "--best", "cost", "--export", "of trials")
    assert done.code == 0, done.err
    assert (place / "of trials" / "model.json").is_file()
