"""Sweeps and runs that someone sent: what fits in, but is not of the study or the journal.

Files that are broken or forged anyhow are tried in ``test_effects.py``.
"""

import json
import shutil
import sqlite3
import struct
from contextlib import closing

import numpy as np
import pytest

from framework.store import Framing, title_of
from tests.trust.test_received import said


def test_the_database_of_a_sweep_is_no_link(made, tmp_path, capsys):
    place, other = tmp_path / "sweep", tmp_path / "other.db"
    shutil.copytree(made["sweep"], place)
    (place / "optuna.db").rename(other)
    (place / "optuna.db").symlink_to(other)
    before = other.read_bytes()
    code, text = said(capsys, "resume", str(place), "--quiet", "--set", "sweep.trials=3")
    assert (code, "optuna.db: expected the files of a run, found a link to" in text) == (2, True)
    assert other.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        "delete from studies",
        "delete from trial_values",
        "update trials set state = 'x'",
        "update trials set number = number + 1",
    ],
)
def test_a_forged_study_ends_in_a_sentence(change, made, tmp_path, capsys):
    shutil.copytree(made["sweep"], tmp_path / "sweep")
    with closing(sqlite3.connect(tmp_path / "sweep" / "optuna.db")) as database, database:
        database.execute(change)
    code, text = said(capsys, "resume", str(tmp_path / "sweep"), "--quiet")
    assert (code, "optuna.db: expected the study of a sweep, found it damaged" in text) == (2, True)


def test_a_front_that_is_not_of_the_journal_ends_in_a_sentence(received, capsys):
    """Each of these ended in an error of Python's; the journal's own was written as the front."""
    front, journal = received / "front.csv", received / "journal.bin"
    before = front.read_text()
    head, _, rows = before.partition("\n")
    cost = head.split(",").index("cost")
    for odd in ("nan", "inf"):
        cells = [line.split(",") for line in rows.splitlines()]
        lines = [",".join([*row[:cost], odd, *row[cost + 1 :]]) for row in cells]
        front.write_text("\n".join([head, *lines]))
        code, text = said(capsys, "choose", str(received), "--best", "accuracy")
        assert (code, "expected finite values, found others in column 'cost'" in text) == (2, True)
    front.write_text(before)
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
    code, text = said(capsys, "resume", str(received), "--quiet")
    assert (code, "expected at row 0 the genomes" in text) == (2, True)
    assert front.read_text() == before
