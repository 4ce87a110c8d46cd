"""Runs, models and libraries that someone sent: every forged file ends in a sentence or loads."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from framework.cli.results import Result
from framework.cli.tables import walk
from framework.errors import InputError
from framework.experiment.comparison import compare
from framework.experiment.run_dir import RunDir
from framework.libraries.library import Cost, Library, load_library
from framework.models.store import load_model
from framework.models.walk import Chosen, shares
from tests.command import code_and_errors, refused
from tests.trust.forgeries import forged, trying
from tests.trust.forging import seal, with_keys
from tracking.figures.run_data import read_run_data


def broken(content: bytes, rng: random.Random) -> bytes:
    """Return a file cut short, or with some bits flipped."""
    if rng.random() < 0.3:
        return content[: rng.randrange(len(content))]
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 3])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ({"data": 1e308}, "expected what is known of the problem, .*data that are float"),
        ({"anchors": "../../x"}, "expected points of reference, found it damaged"),
        ({"anchors": [[1.0]]}, "expected points of reference, found it damaged"),
    ],
)
def test_parts_of_a_description_that_are_others(received, other, part, sentence):
    with_keys(received / "about.json", **part)
    with pytest.raises(InputError, match=rf"about\.json: {sentence}"):
        compare([received, other])


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ({"expected": "x"}, "no keys and values as 'expected'"),
        ({"front_size": "x"}, "no numbers as 'front_size'"),
        ({"wall_s": "x"}, "no number as 'wall_s'"),
        ({"expected": {"tested": "x"}}, "no number as 'tested'"),
    ],
)
def test_parts_of_a_summary_that_are_others(received, part, sentence, capsys):
    with_keys(received / "summary.json", **part)
    damaged = f"found it damaged (TypeError: {sentence}); delete it"
    refused(capsys, damaged, "choose", received, "--best", "cost")


def test_sizes_of_the_data_that_are_no_numbers(received):
    with_keys(received / "about.json", data={"name": "x", "models": ["x"]})
    with pytest.raises(InputError, match=r"about\.json: expected sizes of the data"):
        read_run_data(RunDir(received))


def test_nesting_deeper_than_anyones(received, capsys):
    for name in ("about.json", "summary.json", "model/model.json"):
        (received / name).write_text('{"x": ' * 5000 + "1" + "}" * 5000)
    refused(capsys, "more than 100 levels", "choose", received, "--best", "cost")
    refused(capsys, "more than 100 levels", "predict", received / "model", received / "front.csv")


# --- models -----------------------------------------------------------------------------------


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_models_with_a_flipped_bit_are_refused(received):
    rng = random.Random(2)
    for path in files_of(received / "model"):
        whole = path.read_bytes()
        for _ in range(3):
            path.write_bytes(broken(whole, rng))
            with pytest.raises(InputError):
                load_model(received / "model")
        path.write_bytes(whole)
    load_model(received / "model")


def test_models_whose_description_is_forged(received, capsys):
    model = received / "model"
    whole = json.loads((model / "model.json").read_text())

    @trying(20)
    @given(forged(whole))
    def attempt(changed: Any) -> None:
        (model / "model.json").write_text(json.dumps(changed))
        seal(model)
        code, text = code_and_errors(capsys, "predict", model, model / "example.csv")
        assert code == 0 or "paretolab: " in text, text
        chosen = Chosen.read(model)  # what pages and tables show of it
        if chosen is not None:
            Result(walk(chosen)).show()
            shares(chosen.walk, 3)

    attempt()


# --- libraries --------------------------------------------------------------------------------


def little() -> Library:
    rng = np.random.default_rng(0)
    labels = np.array(["no", "yes"])[np.arange(30) % 2]
    costs = {"time": Cost(rng.uniform(1, 2, 4), "ms")}
    configs = [{"family": "ab"[j % 2], "depth": j} for j in range(4)]
    return Library.from_arrays(
        [f"m{j}" for j in range(4)],
        rng.uniform(size=(4, 30)),
        labels,
        ["no", "yes"],
        costs,
        configs=configs,
    )


def test_a_file_that_a_library_does_not_list_is_noticed(tmp_path):
    little().save(tmp_path / "library")
    (tmp_path / "library" / "encoder.json").write_text("{}")
    with pytest.raises(InputError, match=r"encoder.json was changed since"):
        load_library(tmp_path / "library")
