"""The command: repeats of one run."""

import json

import numpy as np
import pandas as pd
import pytest

from tests import oracles
from tests.cli.places import front_of
from tests.command import assert_each_row_once


def check_repeats(directory):
    repeats = sorted((directory / "repeats").iterdir())
    assert [repeat.name for repeat in repeats] == ["000", "001", "002"]
    summaries = [json.loads((repeat / "summary.json").read_text()) for repeat in repeats]
    assert len({summary["seed"] for summary in summaries}) == 3
    assert summaries[0]["seed"] == 0
    summary = json.loads((directory / "summary.json").read_text())
    assert (summary["status"], summary["repeats"]) == ("done", 3)
    assert summary["evaluations"] == sum(s["evaluations"] for s in summaries)
    volumes = [s["indicators"]["hypervolume"] for s in summaries]
    figures = summary["indicators"]["hypervolume"], summary["indicators"]["hypervolume_std"]
    assert figures == pytest.approx((np.mean(volumes), np.std(volumes, ddof=1)))
    for repeat in repeats:
        assert_each_row_once(repeat / "journal.bin")
    union = pd.read_csv(directory / "front.csv")
    fronts = [pd.read_csv(repeat / "front.csv") for repeat in repeats]
    together = pd.concat(fronts, ignore_index=True)[["coverage", "accuracy", "cost"]]
    losses = together.to_numpy() * [-1, -1, 1]
    best = losses[oracles.nondominated(losses)]
    found = union[["coverage", "accuracy", "cost"]].to_numpy() * [-1, -1, 1]
    assert {tuple(row) for row in found} == {tuple(row) for row in best}
    for _, row in union.iterrows():
        source = fronts[int(row["repeat"])].set_index("id").loc[int(row["repeat_id"])]
        assert source["cost"] == row["cost"]
        assert source["test_cost"] == row["test_cost"]


@pytest.fixture(scope="module")
def three_repeats(command, place):
    done = command("run", "small.yaml", "--out", "repeats", "--repeats", "3", code=0)
    done.dir = place / "repeats"
    return done


@pytest.mark.slow
def test_trials_one_by_one(three_repeats, finished):
    check_repeats(three_repeats.dir)
    assert three_repeats.err.count("evaluations, front") == 3
    assert front_of(three_repeats.dir / "repeats" / "000") == front_of(finished.dir)


@pytest.mark.slow
def test_repeats_say_in_how_many_the_search_was_not_worth_it(three_repeats, finished):
    kept = [
        json.loads((run / "summary.json").read_text())["alternatives"]
        for run in (three_repeats.dir / "repeats" / "000", finished.dir)
    ]
    assert kept[0] == kept[1]
    (line,) = [line for line in three_repeats.out.splitlines() if "one would do" in line]
    assert line.startswith(
        ("in all 3 runs the search beats", "in 1 of 3", "in 2 of 3", "in 3 of 3")
    )
    assert kept[0][0]["name"] in line
    page = (three_repeats.dir / "report.html").read_text()
    assert page.index(line[1:]) < page.index("The chosen solution")


@pytest.mark.slow
def test_trials_on_ray_have_the_same_fronts(three_repeats, command, place):
    command("run", "small.yaml", "--out", "ray repeats", "--repeats", "3", "--workers", "2", code=0)
    check_repeats(place / "ray repeats")
    assert front_of(place / "ray repeats") == front_of(three_repeats.dir)
    assert not (place / "ray repeats" / ".token").exists()


@pytest.mark.slow
def test_resume_adds_trials_and_leaves_the_others_alone(three_repeats, command):
    before = (three_repeats.dir / "repeats" / "001" / "journal.bin").stat().st_mtime_ns
    command("resume", "repeats", "--set", "repeats=4", code=0)
    assert len(list((three_repeats.dir / "repeats").iterdir())) == 4
    after = (three_repeats.dir / "repeats" / "001" / "journal.bin").stat().st_mtime_ns
    assert after == before


@pytest.mark.slow
def test_choose_from_trials(three_repeats, command, place):
    command("choose", "repeats", "--best", "cost", "--export", "of repeats", code=0)
    assert (place / "of repeats" / "model.json").is_file()
