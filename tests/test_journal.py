"""The journal: what is written comes back, whatever happens to the file."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.general.baselines import RandomSearch
from framework.batch import Evaluated
from framework.errors import JournalError
from framework.front import Front
from framework.journal import Journal
from framework.problems.functions import FunctionProblem
from framework.run.driver import search as run
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget
from framework.testing.tools import CountingProblem, same_batches, same_front
from tests.conftest import roles_of

METRICS = ("f1", "f2")
FLOATS = st.floats(width=64, allow_nan=False)
TEXT = st.text(st.characters(), max_size=20)


def make(path, identity=None, d=3, dtype=np.float64):
    return Journal(path, identity or {"seed": 0}, metrics=METRICS, d=d, dtype=np.dtype(dtype))


def batch(first, n, d=3, seed=0):
    rng = np.random.default_rng(seed + first)
    values = {name: rng.random(n) for name in METRICS}
    return Evaluated(np.arange(first, first + n), rng.random((n, d)), values)


def written(path):
    with Journal(path) as journal:
        return [piece for piece, _ in journal.batches()]


# --- round trip -------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 4), max_size=4),
    values=st.lists(FLOATS, min_size=32, max_size=32),
    errors=st.dictionaries(st.integers(0, 15), TEXT),
    dtype=st.sampled_from([np.int8, np.int16, np.int32, np.float64]),
)
def test_round_trip(tmp_path_factory, sizes, values, errors, dtype):
    path = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    first, batches = 0, []
    for n in sizes:
        ids = np.arange(first, first + n)
        columns = np.array(values).reshape(2, 16)[:, first : first + n].copy()
        failed = {id: text for id, text in errors.items() if id in ids}
        columns[:, np.isin(ids, list(failed))] = np.nan
        X = np.arange(3 * n).reshape(n, 3).astype(dtype)
        batches.append(Evaluated(ids, X, dict(zip(METRICS, columns, strict=True)), failed))
        first += n
    with make(path, dtype=dtype) as journal:
        for number, piece in enumerate(batches):
            journal.append(piece, number + 0.5)
        assert journal.n_batches == len(batches)
        assert journal.seconds == (len(batches) - 0.5 if batches else 0.0)
    found = written(path)
    same_batches(batches, found, "round trip")
    assert all(piece.X.dtype == dtype for piece in found)
    with Journal(path) as journal:
        same_batches(batches[1:], [piece for piece, _ in journal.batches(1)], "from the second on")


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.float64])
def test_distinct_genomes_are_counted(tmp_path, dtype):
    rng = np.random.default_rng(0)
    pieces = [rng.integers(0, 3, size=(n, 5)).astype(dtype) for n in (40, 1, 300)]
    with make(tmp_path / "j", d=5, dtype=dtype) as journal:
        assert journal.distinct_genomes() == 0
        first = 0
        for X in pieces:
            values = {name: np.zeros(len(X)) for name in METRICS}
            journal.append(Evaluated(np.arange(first, first + len(X)), X, values), 0.0)
            first += len(X)
        wanted = {tuple(x) for X in pieces for x in X.tolist()}
        assert journal.distinct_genomes() == len(wanted) < first


def test_another_program_can_read_it(tmp_path):
    """The docstring of the module is all one needs."""
    path = tmp_path / "journal.sqlite"
    with make(path, dtype=np.int16) as journal:
        journal.append(batch(0, 2), 1.0)
    db = sqlite3.connect(path)
    genomes, metrics = db.execute("SELECT genomes, metrics FROM batches").fetchone()
    dtype = db.execute("SELECT value FROM meta WHERE key = 'dtype'").fetchone()[0].strip('"')
    db.close()
    assert np.frombuffer(genomes, dtype).shape == (6,)
    assert np.frombuffer(metrics, "<f8").reshape(2, 2)[0, 0] == batch(0, 2).values["f1"][0]


# --- whose journal ----------------------------------------------------------------------------


def test_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "journal.sqlite"
    for first in (0, 2):
        with make(path) as journal:
            journal.append(batch(first, 2), 1.0)
    assert [len(piece) for piece in written(path)] == [2, 2]


def test_another_run_is_refused_and_the_keys_are_named(tmp_path):
    path = tmp_path / "journal.sqlite"
    make(path, {"seed": 0, "algorithm.kind": "emsco", "d": 1}).close()
    with pytest.raises(JournalError) as error:
        make(path, {"seed": 1, "algorithm.kind": "emsco", "problem.name": "zdt1", "d": 1})
    message = str(error.value)
    assert "seed is 0 there and 1 here" in message
    assert "problem.name is 'absent' there and 'zdt1' here" in message
    assert "algorithm.kind" not in message


def test_a_second_writer_is_refused(tmp_path):
    path = tmp_path / "journal.sqlite"
    with make(path) as one, make(path) as other:
        one.append(batch(0, 2), 1.0)
        with pytest.raises(JournalError, match="another process"):
            other.append(batch(0, 2), 1.0)
    assert len(written(path)) == 1


def test_reading_needs_a_journal(tmp_path):
    with pytest.raises(JournalError, match="no such file"):
        Journal(tmp_path / "none.sqlite")
    empty = tmp_path / "empty.sqlite"
    empty.touch()
    with pytest.raises(JournalError, match="another file"):
        Journal(empty)
    text = tmp_path / "text.sqlite"
    text.write_text("not a database at all " * 100)
    with pytest.raises(JournalError, match="not a database"):
        Journal(text)


def test_a_journal_of_a_newer_format_is_refused_not_repaired(tmp_path, monkeypatch):
    path = tmp_path / "journal.sqlite"
    monkeypatch.setattr("framework.journal.FORMAT", 2)
    make(path).close()
    monkeypatch.undo()
    with pytest.raises(JournalError, match="expected journal format 1, found 2"):
        make(path)
    assert not path.with_name("journal.sqlite.torn").exists()


# --- damage -----------------------------------------------------------------------------------

PROBLEM = FunctionProblem("zdt1", 3)
ROLES = roles_of(PROBLEM)
BUDGET = Budget(generations=7)


def search(path, problem=PROBLEM):
    algorithm = RandomSearch(PROBLEM, ROLES, seed=0, batch=40)
    evaluator = SerialEvaluator(problem)
    with make(path) as journal:
        kept = journal.n_batches
        return run(PROBLEM, algorithm, evaluator, budget=BUDGET, journal=journal), kept


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run: the directory of its journal, its batches, its front."""
    folder = tmp_path_factory.mktemp("finished")
    front, _ = search(folder / "journal.sqlite")
    return folder, written(folder / "journal.sqlite"), front


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The same run as a killed process leaves it, with all batches in the write-ahead log."""
    folder, away = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("killed") / "run"
    algorithm = RandomSearch(PROBLEM, ROLES, seed=0, batch=40)
    with make(folder / "journal.sqlite") as journal:
        front = run(PROBLEM, algorithm, SerialEvaluator(PROBLEM), budget=BUDGET, journal=journal)
        shutil.copytree(folder, away)
    assert (away / "journal.sqlite-wal").stat().st_size > 0
    return away, written(folder / "journal.sqlite"), front


def copied(source, tmp_path):
    target = tmp_path / "copy"
    shutil.copytree(source, target, dirs_exist_ok=True)
    return target / "journal.sqlite"


def check_resumes(path, batches, front):
    """A damaged journal keeps a prefix, evaluates just the rest, and ends in the same front."""
    damaged = path.read_bytes()
    counting = CountingProblem(PROBLEM)
    again, kept = search(path, counting)
    same_front(front, again, "resumed after damage")
    same_batches(batches, written(path), "resumed after damage")
    assert sorted(counting.evaluated.elements()) == list(range(40 * kept, 40 * len(batches)))
    torn = path.with_name("journal.sqlite.torn")
    if torn.exists():
        assert len(torn.read_bytes()) == len(damaged)
    return kept


@pytest.mark.parametrize("seed", range(8))
def test_a_cut_journal_keeps_a_prefix(finished, tmp_path, seed):
    folder, batches, front = finished
    path = copied(folder, tmp_path)
    cut = random.Random(seed).randrange(path.stat().st_size)
    os.truncate(path, cut)
    assert check_resumes(path, batches, front) < len(batches)


@pytest.mark.parametrize("seed", range(16))
def test_a_journal_with_flipped_bytes_keeps_a_prefix(finished, tmp_path, seed):
    folder, batches, front = finished
    path = copied(folder, tmp_path)
    chance = random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 1, 5, 50])):
        content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
    path.write_bytes(content)
    check_resumes(path, batches, front)


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_log_keeps_a_prefix(killed, tmp_path, seed):
    folder, batches, front = killed
    path = copied(folder, tmp_path)
    log = path.with_name("journal.sqlite-wal")
    chance = random.Random(seed)
    content = bytearray(log.read_bytes())
    place = chance.randrange(len(content))
    if seed % 2:
        content[place] ^= chance.randrange(1, 256)
    else:
        del content[place:]
    log.write_bytes(content)
    check_resumes(path, batches, front)


def test_a_killed_run_lost_nothing(killed, tmp_path):
    folder, batches, front = killed
    path = copied(folder, tmp_path)
    assert check_resumes(path, batches, front) == len(batches)
    assert not path.with_name("journal.sqlite.torn").exists()


def test_most_batches_survive_damage_to_one(finished, tmp_path):
    folder, batches, front = finished
    path = copied(folder, tmp_path)
    victim = np.ascontiguousarray(batches[5].X).tobytes()[:64]
    content = bytearray(path.read_bytes())
    content[content.find(victim)] ^= 255
    path.write_bytes(content)
    with Journal(path) as journal, pytest.raises(JournalError, match="found damage"):
        list(journal.batches())
    assert check_resumes(path, batches, front) == 5
    assert path.with_name("journal.sqlite.torn").read_bytes() == bytes(content)


def test_damage_to_the_description_loses_nothing(finished, tmp_path):
    folder, batches, front = finished
    path = copied(folder, tmp_path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b'{"seed": 0}', b'{"seed": 7}'))
    with pytest.raises(JournalError, match="found damage"):
        Journal(path)
    assert check_resumes(path, batches, front) == len(batches)


# --- trouble that is not damage ---------------------------------------------------------------

FILL = """
import json, resource, signal, sys
import numpy as np
from framework.errors import JournalError
from tests.test_journal import batch, make

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with make(sys.argv[1]) as journal:
    journal.append(batch(0, 50), 0.0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    for n in range(1, 1000):
        try:
            journal.append(batch(50 * n, 50), float(n))
        except JournalError as error:
            print(json.dumps([n, str(error), journal.n_batches]))
            sys.exit(0)
sys.exit("the disk never got full")
"""


def test_a_full_disk_loses_nothing_that_was_told(tmp_path):
    path = tmp_path / "journal.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr
    n, message, readable = json.loads(done.stdout)
    assert 0 < n < 999
    assert readable == n
    assert "cannot write the journal" in message
    assert "make room and run `paretolab resume" in message
    same_batches([batch(50 * i, 50) for i in range(n)], written(path), "after a full disk")
    with make(path) as journal:
        assert journal.salvaged is None
        journal.append(batch(50 * n, 50), 1.0)


@contextmanager
def unprivileged():
    """Be somebody who may not write everywhere."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_no_permission_is_said_and_nothing_is_repaired():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "journal.sqlite"
        with make(path) as journal:
            journal.append(batch(0, 2), 1.0)
        path.chmod(0o444)
        folder.chmod(0o555)
        with unprivileged():
            with pytest.raises(JournalError, match="cannot use the journal"):
                make(path)
            assert len(written(path)) == 1
        folder.chmod(0o755)
        assert not path.with_name("journal.sqlite.torn").exists()


def test_a_reader_sees_whole_batches_while_a_writer_writes(tmp_path):
    path = tmp_path / "journal.sqlite"
    expected = [batch(20 * n, 20) for n in range(60)]
    make(path).close()
    seen = []

    def read():
        with Journal(path) as journal:
            while not seen or seen[-1] < len(expected):
                found = [piece for piece, _ in journal.batches()]
                same_batches(expected[: len(found)], found, "read while written")
                seen.append(len(found))

    reader = threading.Thread(target=read)
    reader.start()
    with make(path) as journal:
        for n, piece in enumerate(expected):
            journal.append(piece, float(n))
    reader.join(timeout=30)
    assert seen[-1] == len(expected)
    assert seen == sorted(seen)


def test_front_of_any_prefix(finished):
    folder, batches, _ = finished
    with Journal(folder / "journal.sqlite") as journal:
        for upto in range(len(batches) + 1):
            front = Front.from_journal(journal, ROLES, PROBLEM.gene_names, upto)
            same_front(Front.of(batches[:upto], ROLES, PROBLEM.gene_names), front, f"{upto}")
