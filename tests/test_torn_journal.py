"""A journal that was cut anywhere keeps its whole leading batches."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from framework.batch import Evaluated
from framework.errors import JournalError
from framework.journal import Journal

SHAPE = {"metrics": ("u", "v"), "d": 6, "dtype": np.dtype("int8")}
PAGE = 4096


def batch(number, rows):
    rng = np.random.default_rng(number)
    first = sum(rows(i) for i in range(number))
    n = rows(number)
    values = {"u": rng.random(n), "v": rng.random(n)}
    genomes = rng.integers(0, 5, (n, 6)).astype("int8")
    return Evaluated(np.arange(first, first + n), genomes, values, {})


def make(path, rows, n=24):
    journal = Journal(path, {"run": 1}, **SHAPE)
    for number in range(n):
        journal.append(batch(number, rows), float(number))
    return journal


def kept(path, rows):
    """Open a torn journal to go on with it; return how many batches it has, all of them checked."""
    with Journal(path, {"run": 1}, **SHAPE) as journal:
        found = [piece for piece, _ in journal.batches()]
        for number, piece in enumerate(found):
            wanted = batch(number, rows)
            assert np.array_equal(piece.X, wanted.X)
            assert np.array_equal(piece.values["v"], wanted.values["v"])
        journal.append(batch(len(found), rows), 99.0)  # it goes on
    return len(found)


@pytest.mark.parametrize(
    "rows",
    [lambda i: 10, lambda i: 600, lambda i: 900 if i % 3 == 0 else 5],
    ids=["in pages", "over pages", "both"],
)
def test_cut_file(tmp_path, rows):
    whole = tmp_path / "whole.sqlite"
    make(whole, rows).close()
    content = whole.read_bytes()
    size = len(content)
    cuts = [0, 1, 50, 99, 100, PAGE - 1, PAGE, *range(PAGE + 7, size, max(PAGE, size // 25)), size]
    cuts += [size - PAGE, size - PAGE - 1, size - 1]
    counts = {}
    for cut in sorted(set(cuts)):
        path = tmp_path / f"{cut}.sqlite"
        path.write_bytes(content[:cut])
        counts[cut] = kept(path, rows)
        for file in tmp_path.glob(f"{cut}.sqlite*"):
            file.unlink()
    assert list(counts.values()) == sorted(counts.values())
    assert counts[size] == 24
    if size > 20 * PAGE:  # else all batches share the few last pages
        for cut, count in counts.items():
            # a page that was divided when the file grew may lie behind what it lists
            assert count >= 24 * cut / size - 9, f"{count} batches of {cut} of {size} bytes"


@pytest.mark.parametrize(("start", "stop"), [(0, 16), (16, 18), (0, 100), (100, PAGE), (0, PAGE)])
def test_a_damaged_first_page_loses_nothing(tmp_path, start, stop):
    path = tmp_path / "journal.sqlite"
    make(path, lambda i: 40).close()
    content = bytearray(path.read_bytes())
    content[start:stop] = bytes(stop - start)
    path.write_bytes(content)
    assert kept(path, lambda i: 40) == 24
    assert path.with_name("journal.sqlite.torn").read_bytes() == content
    assert {p.suffix for p in tmp_path.iterdir()} <= {".sqlite", ".torn"}


def test_a_first_page_is_lent_to_no_other_runs_batches(tmp_path):
    """The description is damaged too: the batches of another run are not taken for ours."""
    path = tmp_path / "journal.sqlite"
    make(path, lambda i: 40).close()
    content = bytearray(path.read_bytes())
    content[: 2 * PAGE] = bytes(2 * PAGE)
    path.write_bytes(content)
    with Journal(path, {"run": 2}, **SHAPE) as journal:
        assert journal.n_batches == 0
    path.write_bytes(content)
    assert kept(path, lambda i: 40) == 24


def test_cut_log(tmp_path):
    def rows(i):
        return 200

    path = tmp_path / "whole.sqlite"
    journal = make(path, rows)
    log = path.with_name("whole.sqlite-wal")
    size = log.stat().st_size
    assert size > 30 * PAGE
    counts = []
    for number, cut in enumerate([0, 31, 32, 5000, *range(9000, size, size // 12), size]):
        other = tmp_path / f"{number}.sqlite"
        shutil.copy(path, other)
        other.with_name(f"{other.name}-wal").write_bytes(log.read_bytes()[:cut])
        counts.append(kept(other, rows))
    journal.close()
    assert counts == sorted(counts)
    assert counts[-1] == 24
    assert len(set(counts)) > 8


def test_a_reader_says_what_to_do(tmp_path):
    path = tmp_path / "journal.sqlite"
    make(path, lambda i: 600).close()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(JournalError, match=r"malformed; `paretolab resume` keeps what is whole$"):
        Journal(path)
    assert path.read_bytes() == content[: len(content) // 2]
