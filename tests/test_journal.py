"""The journal: what is written comes back, whatever happens to the file."""

import json
import os
import random
import shutil
import struct
import sys
import tempfile
import threading
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.general.baselines import RandomSearch
from framework.batch import Evaluated
from framework.errors import JournalError, ParetolabError
from framework.front import Front
from framework.journal import Journal
from framework.problems.functions import FunctionProblem
from framework.run.driver import search as run
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget
from framework.store import Framing
from framework.testing.tools import CountingProblem, same_batches, same_front
from tests.command import run_program
from tests.conftest import roles_of

METRICS = ("f1", "f2")
FLOATS = st.floats(width=64, allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(), max_size=20)


def make(path, identity=None, d=3, dtype=np.float64):
    return Journal(path, identity or {"seed": 0}, metrics=METRICS, d=d, dtype=np.dtype(dtype))


def batch(first, n, d=3, seed=0):
    rng = np.random.default_rng(seed + first)
    values = {name: rng.random(n) for name in METRICS}
    return Evaluated(np.arange(first, first + n), rng.random((n, d)), values)


def written(path):
    with Journal(path) as journal:
        return list(journal.evaluations())


# --- round trip -------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 4), max_size=4),
    values=st.lists(FLOATS, min_size=32, max_size=32),
    errors=st.dictionaries(st.integers(0, 15), TEXT),
    dtype=st.sampled_from([np.int8, np.int16, np.int32, np.float64]),
)
def test_round_trip(tmp_path_factory, sizes, values, errors, dtype):
    path = tmp_path_factory.mktemp("journal") / "journal.bin"
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
    """The docstrings of the modules are all one needs."""
    path = tmp_path / "journal.bin"
    with make(path, dtype=np.int16) as journal:
        journal.append(batch(0, 2), 1.0)
    content = path.read_bytes()
    assert content.startswith(b"paretolab-frames")
    (length,) = struct.unpack_from("<I", content, 16)
    title, start = json.loads(content[28 : 28 + length]), 28 + length + 12
    rows, seconds = struct.unpack_from("<qd", content, start)
    assert (rows, seconds) == (2, 1.0)
    assert np.frombuffer(content, "<i8", 2, start + 16).tolist() == [0, 1]
    metrics = np.frombuffer(content, "<f8", 4, start + 32).reshape(2, 2)
    assert np.array_equal(metrics[title["metrics"].index("f2")], batch(0, 2).values["f2"])
    assert np.frombuffer(content, title["dtype"], offset=start + 64).shape == (6,)


# --- whose journal ----------------------------------------------------------------------------


def test_another_run_is_refused_and_the_keys_are_named(tmp_path):
    path = tmp_path / "journal.bin"
    make(path, {"seed": 0, "algorithm.kind": "emsco", "d": 1}).close()
    with pytest.raises(JournalError) as error:
        make(path, {"seed": 1, "algorithm.kind": "emsco", "problem.name": "zdt1", "d": 1})
    message = str(error.value)
    assert "seed is 0 there and 1 here" in message
    assert "problem.name is 'absent' there and 'zdt1' here" in message
    assert "algorithm.kind" not in message


def test_a_second_writer_is_refused(tmp_path):
    path = tmp_path / "journal.bin"
    with make(path) as one, make(path) as other:
        one.append(batch(0, 2), 1.0)
        with pytest.raises(JournalError, match="another process"):
            other.append(batch(0, 2), 1.0)
    assert len(written(path)) == 1


def test_reading_needs_a_journal(tmp_path):
    with pytest.raises(JournalError, match="no such file"):
        Journal(tmp_path / "none.bin")
    for content in (b"", b"not a journal at all" * 100, b"SQLite format 3\0" + bytes(4096)):
        (tmp_path / "other.bin").write_bytes(content)
        with pytest.raises(JournalError, match="found another file"):
            Journal(tmp_path / "other.bin")
    (tmp_path / "folder").mkdir()
    with pytest.raises(JournalError, match="a directory in the place of a file"):
        Journal(tmp_path / "folder")


def test_a_journal_of_a_newer_format_is_refused_not_repaired(tmp_path, monkeypatch):
    path = tmp_path / "journal.bin"
    monkeypatch.setattr("framework.journal.FORMAT", 3)
    make(path).close()
    monkeypatch.undo()
    with pytest.raises(JournalError, match="expected journal format 2, found 3"):
        make(path)
    assert not path.with_name("journal.bin.torn").exists()


def test_a_journal_for_reading_is_not_written(tmp_path):
    make(tmp_path / "j").close()
    with pytest.raises(JournalError, match="found one for reading"):
        Journal(tmp_path / "j").append(batch(0, 2), 1.0)


def test_what_is_interrupted_while_it_is_written_is_not_there(tmp_path, monkeypatch):
    """A batch is written in two pieces, and Ctrl-C comes between them."""

    class Interrupted(FileIO):
        def write(self, content):
            if len(content) < 100:
                raise KeyboardInterrupt
            return super().write(content[:50])

    path = tmp_path / "journal.bin"
    make(path).close()
    whole = path.read_bytes()
    with make(path) as journal:
        journal._file = Interrupted(path, "r+b")
        with pytest.raises(KeyboardInterrupt):
            journal.append(batch(0, 3), 1.0)
        assert path.read_bytes() == whole
        journal._file = FileIO(path, "r+b")
        journal.append(batch(0, 3), 1.0)
    same_batches([batch(0, 3)], written(path), "after an interrupt")


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
    front, _ = search(folder / "journal.bin")
    return folder, written(folder / "journal.bin"), front


def check_resumes(path, batches, front):
    """A damaged journal keeps a prefix, evaluates just the rest, and ends in the same front."""
    damaged = path.read_bytes()
    counting = CountingProblem(PROBLEM)
    again, kept = search(path, counting)
    same_front(front, again, "resumed after damage")
    same_batches(batches, written(path), "resumed after damage")
    assert sorted(counting.evaluated.elements()) == list(range(40 * kept, 40 * len(batches)))
    torn = path.with_name("journal.bin.torn")
    if torn.exists():
        assert len(torn.read_bytes()) == len(damaged)
    return kept


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("flips", [0, 1, 50])
def test_a_run_goes_on_from_a_journal_that_is_cut_or_damaged(finished, tmp_path, flips, seed):
    folder, batches, front = finished
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    path, chance = tmp_path / "journal.bin", random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(flips):
        content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
    if not flips:
        del content[chance.randrange(len(content)) :]
    path.write_bytes(content)
    left = check_resumes(path, batches, front)
    if not flips:
        assert left < len(batches)


def small(path, batches=3):
    """Make a small journal; return its batches and where each of them ends in the file."""
    pieces, ends = [], []
    with make(path) as journal:
        ends.append(path.stat().st_size)
        for number in range(batches):
            failed = {3 * number + 1: "it failed"} if number == 1 else {}
            values = {name: column.copy() for name, column in batch(3 * number, 3).values.items()}
            for column in values.values() if failed else ():
                column[1] = np.nan
            rows = batch(3 * number, 3)
            pieces.append(Evaluated(rows.ids, rows.X, values, failed))
            journal.append(pieces[-1], float(number))
            ends.append(path.stat().st_size)
    return pieces, ends


@pytest.fixture
def no_disk(monkeypatch):
    """Leave it to the system when what is written comes to the disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def test_a_journal_that_is_cut_anywhere_keeps_its_whole_batches(tmp_path, no_disk):
    path = tmp_path / "journal.bin"
    pieces, ends = small(path)
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        kept = sum(end <= cut for end in ends[1:])
        if cut >= ends[0]:  # a reader sees the same, and changes nothing
            same_batches(pieces[:kept], written(path), f"read, cut at {cut}")
            assert path.stat().st_size == cut
        with make(path) as journal:
            assert journal.salvaged == (None if cut in ends else kept)
            same_batches(pieces[:kept], list(journal.evaluations()), f"cut at {cut}")
            for number in range(kept, len(pieces)):
                journal.append(pieces[number], float(number))
        assert path.read_bytes() == whole


def test_a_journal_with_a_flipped_byte_keeps_the_batches_before_it(tmp_path, no_disk):
    path = tmp_path / "journal.bin"
    pieces, ends = small(path)
    whole = path.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(JournalError, match=r"found (damage|another file)"):
            written(path)
        # a damaged title loses nothing: the checksums of the batches tell whose they are
        kept = len(pieces) if place < ends[0] else sum(end <= place for end in ends[1:])
        with make(path) as journal:
            assert journal.salvaged == kept
            same_batches(pieces[:kept], list(journal.evaluations()), f"{place}")
        assert path.with_name("journal.bin.torn").read_bytes() == changed


def test_batches_of_another_run_are_not_taken_for_ours(tmp_path):
    ours, theirs = tmp_path / "ours.bin", tmp_path / "theirs.bin"
    make(theirs, {"seed": 1}).close()
    make(ours, {"seed": 0}).close()
    empty = ours.read_bytes()
    with make(theirs, {"seed": 1}) as journal:
        journal.append(batch(0, 2), 1.0)
    ours.write_bytes(empty + theirs.read_bytes()[len(empty) :])
    with make(ours, {"seed": 0}) as journal:
        assert (journal.salvaged, journal.n_batches) == (0, 0)


TITLE = {"format": 2, "metrics": ["f1", "f2"], "d": 3, "dtype": "<f8", "identity": {"seed": 0}}


def forged(path, title, content=None):
    """Write a journal whose checksums are right, as a forger does."""
    framing = Framing(title if isinstance(title, bytes) else json.dumps(title).encode())
    path.write_bytes(framing.beginning + (b"" if content is None else framing.framed(content)))


@pytest.mark.parametrize(
    "title",
    [
        b"no JSON",
        b"[" * 200_000,
        b'{"format": 2, "identity": ' + b'{"a": ' * 200_000 + b"1" + b"}" * 200_001,
        [],
        {},
        TITLE | {"d": 0},
        TITLE | {"d": -1},
        TITLE | {"d": 1e400},
        TITLE | {"d": "x"},
        TITLE | {"dtype": "O"},
        TITLE | {"dtype": "<U1000000000"},
        TITLE | {"dtype": "V0"},
        TITLE | {"dtype": {}},
        TITLE | {"metrics": []},
        TITLE | {"metrics": 5},
        TITLE | {"identity": 5},
    ],
    ids=str,
)
def test_forged_titles_end_in_a_sentence(tmp_path, title):
    forged(tmp_path / "j", title)
    for opened in (Journal, make):
        with pytest.raises(ParetolabError, match=r"j: expected (the )?journal "):
            opened(tmp_path / "j")


def rows_of(n, ids=(), seconds=1.0, errors=b"", size=None):
    size = 5 * 8 * max(len(ids), 1) if size is None else size
    return struct.pack(f"<qd{len(ids)}q", n, seconds, *ids) + bytes(size) + errors


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes(15),
        rows_of(0),
        rows_of(-1),
        rows_of(10**10),
        rows_of(2**63 - 1),
        rows_of(2, [0, 1], size=79),
        rows_of(2, [1, 1]),
        rows_of(2, [1, 0]),
        rows_of(1, [-(2**63)]),
        rows_of(1, [2**63 - 1]),  # choose gave the solutions after it ids below 0
        rows_of(1, [0], seconds=np.nan),
        rows_of(1, [0], seconds=-1.0),
        rows_of(1, [0], size=0) + struct.pack("<5d", 0, np.inf, 0, 0, 0),
        rows_of(1, [0], size=0) + struct.pack("<5d", np.nan, 0, 0, 0, 0),
        rows_of(1, [0], errors=b"5"),
        rows_of(1, [0], errors=b'{"0": 5}'),
        rows_of(1, [0], errors=b'{"x": "y"}'),
        rows_of(1, [0], errors=b"\xff"),
        rows_of(1, [0], errors=b"[" * 200_000),
        rows_of(1, [0], errors=b'{"0": ' * 200_000 + b"1" + b"}" * 200_000),
    ],
    ids=range(21),
)
def test_forged_batches_end_in_a_sentence(tmp_path, content):
    forged(tmp_path / "j", TITLE, content)
    with Journal(tmp_path / "j") as journal, pytest.raises(ParetolabError, match="j: expected "):
        list(journal.batches())


# --- trouble that is not damage ---------------------------------------------------------------

FILL = """
import json, resource, signal, sys
import numpy as np
from framework.errors import JournalError, ParetolabError
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
    path = tmp_path / "journal.bin"
    done = run_program(
        [sys.executable, "-c", FILL, str(path)], timeout=60, cwd=Path(__file__).parents[1]
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
        path = folder / "journal.bin"
        with make(path) as journal:
            journal.append(batch(0, 2), 1.0)
        path.chmod(0o444)
        folder.chmod(0o555)
        with unprivileged():
            with pytest.raises(JournalError, match="cannot use the journal"):
                make(path)
            assert len(written(path)) == 1
        folder.chmod(0o755)
        assert not path.with_name("journal.bin.torn").exists()


def test_a_reader_sees_whole_batches_while_a_writer_writes(tmp_path):
    path = tmp_path / "journal.bin"
    expected = [batch(20 * n, 20) for n in range(60)]
    make(path).close()
    seen = []

    def read():
        with Journal(path) as journal:
            while not seen or seen[-1] < len(expected):
                found = list(journal.evaluations())
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
    with Journal(folder / "journal.bin") as journal:
        for upto in range(len(batches) + 1):
            front = Front.from_journal(journal, ROLES, PROBLEM.gene_names, upto)
            same_front(Front.of(batches[:upto], ROLES, PROBLEM.gene_names), front, f"{upto}")


def test_a_forged_shape_is_another_runs(tmp_path):
    """A run is not resumed from it, whatever its identity says."""
    for forged_title in (TITLE | {"d": 4}, TITLE | {"dtype": "<f4"}, TITLE | {"metrics": ["f1"]}):
        forged(tmp_path / "j", forged_title)
        with pytest.raises(JournalError, match="expected the journal of this configuration"):
            make(tmp_path / "j")
