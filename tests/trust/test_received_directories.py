"""Sweeps and runs that someone sent: what fits in, but is not of the study or the journal.

Files that are broken or forged anyhow are tried in ``test_effects.py``.
"""

import json
import shutil
import sqlite3
import struct
from contextlib import closing
from io import StringIO

import numpy as np
import pandas as pd
import pytest

from framework.cli.main import main
from framework.errors import InputError
from framework.experiment.alternatives import verdict_of, worth_of_run
from framework.experiment.resamples import read_resamples
from framework.experiment.run_dir import RunDir
from framework.store import Framing, title_of
from tests.command import refused
from tests.trust.forging import with_keys


def test_the_database_of_a_sweep_is_no_link(made, tmp_path, capsys):
    place, other = tmp_path / "sweep", tmp_path / "other.db"
    shutil.copytree(made["sweep"], place)
    (place / "optuna.db").rename(other)
    (place / "optuna.db").symlink_to(other)
    before = other.read_bytes()
    sentence = "optuna.db: expected the files of a run, found a link to"
    refused(capsys, sentence, "resume", place, "--quiet", "--set", "sweep.trials=3")
    assert other.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        "delete from studies",
        "delete from trial_values",
        "update trials set state = 'x'",
        "update trials set number = number + 1",
        "update trials set state = 'WAITING'",
        "insert into trial_user_attributes (trial_id, key, value_json) "
        "select trial_id, 'intervals', '7' from trials",
        "insert into trial_system_attributes (trial_id, key, value_json) "
        "select trial_id, 'constraints', '[1, \"x\"]' from trials",
        "insert into trial_system_attributes (trial_id, key, value_json) "
        "select trial_id, 'constraints:x', '\"y\"' from trials",
    ],
)
def test_a_forged_study_ends_in_a_sentence(change, made, tmp_path, capsys):
    shutil.copytree(made["sweep"], tmp_path / "sweep")
    with closing(sqlite3.connect(tmp_path / "sweep" / "optuna.db")) as database, database:
        database.execute(change)
    sentence = "optuna.db: expected the study of a sweep, found it damaged"
    refused(capsys, sentence, "resume", tmp_path / "sweep", "--quiet")


def with_cost(text, cost):
    """Return the text of a front with another cost of its first solution."""
    table = pd.read_csv(StringIO(text)).astype({"cost": object})
    table.loc[0, "cost"] = cost
    return table.to_csv(index=False)


FRONTS = {  # what became of a front, and what is found if no digest of it is known
    "a value": (lambda text: with_cost(text, 0.5), None),
    "nan": (lambda text: with_cost(text, "nan"), "found others in column 'cost'"),
    "inf": (lambda text: with_cost(text, "inf"), "found others in column 'cost'"),
    "a row less": (lambda text: text[: text.rindex("\n", 0, -1) + 1], None),
    "a row twice": (lambda text: text + text.splitlines()[-1] + "\n", "ids that do not ascend"),
    "semicolons": (lambda text: text.replace(",", ";"), "expected a front, found none to read"),
    "byte order mark": (lambda text: "\ufeff" + text, "a column 'id', found none"),
}


@pytest.mark.parametrize("what", FRONTS)
def test_a_front_that_was_changed_is_refused_and_written_again(what, received, other, capsys):
    """Else its figures are told as those of the run; rows in other order were an IndexError."""
    change, sentence = FRONTS[what]
    front, summary = received / "front.csv", received / "summary.json"
    before, asked = front.read_bytes(), ["--where", "coverage>=0.01", "--sure", "50"]
    front.write_text(change(before.decode()))
    for words in (["choose", *asked], ["compare", str(other), "--out", str(received / "page")]):
        refused(capsys, "found that it was changed since", words[0], received, *words[1:])
    if sentence is not None:  # as of a run that an earlier release made
        known = json.loads(summary.read_text())
        summary.write_text(json.dumps({k: v for k, v in known.items() if k != "files"}))
        refused(capsys, sentence, "choose", received, *asked)
    assert main(["resume", str(received), "--quiet"]) == 0
    assert front.read_bytes() == before


def test_resamples_that_were_changed_are_refused_and_written_again(received, capsys):
    run_dir, file = RunDir(received), received / "resamples.npz"
    before = file.read_bytes()
    assert read_resamples(run_dir, run_dir.front())
    file.write_bytes(before + b"\n")
    with pytest.raises(InputError, match=r"resamples\.npz: expected it as the run wrote it"):
        read_resamples(run_dir, run_dir.front())
    assert main(["resume", str(received), "--quiet"]) == 0
    assert file.read_bytes() == before


def test_a_summary_names_no_files_beyond_the_directory(received):
    with_keys(received / "summary.json", files={"../other": "", "model": ""})
    assert RunDir(received).changed == ["../other", "model"]


def test_a_comparison_by_a_metric_that_the_front_lacks_is_damaged(received):
    run_dir = RunDir(received)
    front, summary = run_dir.front(), json.loads(run_dir.summary_file.read_text())
    assert verdict_of(run_dir, front)
    gains = summary["alternatives"][0]["gains"]
    gains["unheard"] = gains.popitem()[1]
    run_dir.summary_file.write_text(json.dumps(summary))
    for ask in (verdict_of, worth_of_run):
        with pytest.raises(InputError, match="a comparison by metrics of the front, found it dam"):
            ask(RunDir(received), front)


def test_a_choice_of_a_solution_that_is_none_is_not_called_the_users(received, capsys):
    (received / "choice.json").write_text('{"solution": 1000000}')
    assert main(["resume", str(received), "--quiet"]) == 0
    assert "(*, nearest to the ideal point)" in capsys.readouterr().out


def test_a_front_that_is_not_of_the_journal_ends_in_a_sentence(received, capsys):
    """It was written as the front."""
    front, journal = received / "front.csv", received / "journal.bin"
    before = front.read_text()
    with journal.open("rb") as file:
        title = title_of(file)
        framing = Framing(title)
        first, *more = [framing.content(file, frame) for frame in list(framing.frames(file))]
    meta = json.loads(title)
    (n,) = struct.unpack_from("<q", first)
    start = 16 + 8 * n * (1 + len(meta["metrics"]))
    genes = b"\x7f" * (n * meta["d"] * np.dtype(meta["dtype"]).itemsize)
    forged = [first[:start] + genes + first[start + len(genes) :], *more]
    journal.write_bytes(framing.beginning + b"".join(map(framing.framed, forged)))
    (received / "summary.json").unlink()
    refused(capsys, "expected at row 0 the genomes", "resume", received, "--quiet")
    assert front.read_text() == before
