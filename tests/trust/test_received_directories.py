"""Runs, sweeps and experiments that someone sent, one file in them broken or forged.

Whatever is done with them ends well or in one sentence; nothing runs of what they bring, and what
ends in a sentence leaves their rows, fronts, models and configurations as they were.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from framework.store import Framing, title_of
from tests.trust.test_received import broken, forgeries, said

COMMANDS = {
    "run": (
        ["choose", "DIR", "--best", "cost"],
        ["resume", "DIR", "--quiet"],
        ["resume", "DIR", "--quiet", "--set", "budget.evaluations=24"],
        ["compare", "DIR", "OTHER", "--out", "OUT"],
    ),
    "sweep": (["resume", "DIR", "--quiet"], ["compare", "DIR", "--out", "OUT"]),
    "experiment": (["resume", "DIR", "--quiet"], ["compare", "DIR", "--out", "OUT"]),
}
DRAWN = (".png", ".html", ".md", ".lock")
MADE_ANEW = ("summary.json", "choice.json", ".lock")


def contents(folder: Path) -> dict[str, str]:
    """Return a digest of every file that is not made anew whenever a run goes on."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if not path.name.endswith(MADE_ANEW)
    }


def forge(path: Path, rng: random.Random) -> None:
    """Break a file, or write another value into it."""
    whole, plain = path.read_bytes(), rng.random() < 0.7
    if plain and path.suffix == ".json":
        path.write_text(json.dumps(forgeries(json.loads(whole), rng, 1)[0]))
    elif plain and path.suffix == ".yaml":
        path.write_text(yaml.safe_dump(forgeries(yaml.safe_load(whole), rng, 1)[0]))
    elif rng.random() < 0.2:
        path.unlink()
    else:
        path.write_bytes(broken(whole, rng) if whole else b"\0")


@pytest.mark.quick(2)
@pytest.mark.parametrize("kind", COMMANDS)
@pytest.mark.filterwarnings("ignore")
def test_a_forged_file_ends_in_a_sentence(kind, made, other, tmp_path, rounds, capsys):
    rng = random.Random(f"{kind} {rounds}")
    for number in range(3 * rounds):
        place = tmp_path / str(number)
        shutil.copytree(made[kind], place)
        files = [p for p in sorted(place.rglob("*")) if p.is_file() and p.suffix not in DRAWN]
        chosen = rng.choice(files)
        forge(chosen, rng)
        names: dict[str, Any] = {"DIR": place, "OTHER": other, "OUT": tmp_path / f"out{number}"}
        arguments = [str(names.get(word, word)) for word in rng.choice(COMMANDS[kind])]
        before = contents(place)
        code, text = said(capsys, *arguments)
        where = f"{arguments[0]} with {chosen.relative_to(place)}: {text}"
        assert code in (0, 2, 3), where
        if code == 2:
            assert "paretolab: " in text, where
            assert contents(place) == before, where
        shutil.rmtree(place)


LINKS = {
    "choice.json.part": ["choose", "DIR", "--best", "cost"],
    "summary.json.part": ["resume", "DIR", "--quiet"],
    "journal.bin": ["resume", "DIR", "--quiet"],
    "journal.bin.torn": ["resume", "DIR", "--quiet"],
    "notes.bin": ["resume", "DIR", "--quiet"],
    ".lock": ["resume", "DIR", "--quiet"],
}


@pytest.mark.parametrize("name", LINKS)
def test_links_in_a_directory_lead_nowhere(name, received, tmp_path, capsys):
    """What is written goes into the directory, wherever whoever sent it has laid links to."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious" * 100)
    (received / name).unlink(missing_ok=True)
    (received / name).symlink_to(precious)
    said(capsys, *(str(received) if word == "DIR" else word for word in LINKS[name]))
    assert precious.read_bytes() == b"precious" * 100


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
