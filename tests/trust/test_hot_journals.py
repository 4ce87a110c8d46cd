"""Databases that someone sent, beside a journal that names a file of the user's for SQLite."""

import os
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from framework.errors import InputError
from framework.files import check_database
from tests.tracking import sweeps
from tracking.mlflow_log.store import connect
from tracking.mlflow_log.ui import _environment
from tracking.sweep.study import open_study

MAGIC = bytes.fromhex("d9d505f920a163d7")


def hot_journal(database: Path, victim: bytes) -> Path:
    """Lay a journal beside a database that names a victim; return its path."""
    if not database.is_file():
        with closing(sqlite3.connect(database)) as db:
            db.execute("CREATE TABLE t (x)")
            db.commit()
    pages = database.stat().st_size // 4096
    head = (MAGIC + struct.pack(">IIIII", 0, 0, pages, 512, 4096)).ljust(512, b"\0")
    named = (
        struct.pack(">I", 262145) + victim + struct.pack(">II", len(victim), sum(victim)) + MAGIC
    )
    journal = database.with_name(f"{database.name}-journal")
    journal.write_bytes(head + (named if victim else b""))
    return journal


def opened_study(file: Path) -> None:
    plan = sweeps.plan_of(file.parent, sweeps.raw(trials=1))
    with open_study(plan, f"sqlite:///{file}", "x", ""):
        pass


OPENING: dict[str, Callable[[Path], object]] = {
    "MLflow's store": lambda file: connect(f"sqlite:///{file}"),
    "MLflow's pages": lambda file: _environment(f"sqlite:///{file}"),
    "a sweep": opened_study,
}


@pytest.mark.parametrize("what", OPENING)
def test_a_journal_that_names_a_victim_is_refused(what, tmp_path):
    victim = tmp_path / "precious"
    victim.write_text("precious")
    hot_journal(tmp_path / "x.db", bytes(victim))
    with pytest.raises(InputError, match=r"expected a journal of x\.db alone"):
        OPENING[what](tmp_path / "x.db")
    assert victim.exists()


@pytest.mark.parametrize("what", OPENING)
def test_a_write_ahead_log_of_someone_else_is_refused(what, tmp_path):
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE planted (x)")
        for suffix in ("", "-wal"):
            content = (tmp_path / f"other.db{suffix}").read_bytes()
            (tmp_path / f"x.db{suffix}").write_bytes(content)
    before = (tmp_path / "x.db").read_bytes()
    with pytest.raises(InputError, match="expected no write-ahead log"):
        OPENING[what](tmp_path / "x.db")
    assert (tmp_path / "x.db").read_bytes() == before
    with closing(sqlite3.connect(tmp_path / "x.db")) as db:  # else nothing would be refused
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("planted",)]


@pytest.mark.parametrize("suffix", ["", "-journal", "-wal", "-shm"])
def test_a_hard_link_to_a_victim_is_refused(suffix, tmp_path):
    victim = tmp_path / "precious"
    victim.write_text("precious")
    os.link(victim, tmp_path / f"x.db{suffix}")
    for opened in OPENING.values():
        (tmp_path / "x.db").touch()
        with pytest.raises(InputError, match="expected a file of the folder, found a link"):
            opened(tmp_path / "x.db")
    assert victim.read_text() == "precious"


def test_sqlite_removes_what_a_journal_names(tmp_path):
    """Else the tests above could not fail."""
    victim = tmp_path / "precious"
    victim.write_text("precious")
    hot_journal(tmp_path / "x.db", bytes(victim))
    with closing(sqlite3.connect(tmp_path / "x.db")) as db:
        db.execute("SELECT * FROM t").fetchall()
    assert not victim.exists()


def test_the_journal_that_a_killed_process_leaves_is_taken(tmp_path):
    journal = hot_journal(tmp_path / "x.db", b"")
    check_database(tmp_path / "x.db")
    with closing(sqlite3.connect(tmp_path / "x.db")) as db:
        assert db.execute("SELECT * FROM t").fetchall() == []
    assert not journal.exists()


SQL = (
    "CREATE VIEW studies AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
    "SELECT n AS study_id, 'x' || n AS study_name FROM r",
    "CREATE TABLE t (x); CREATE TRIGGER y AFTER INSERT ON t BEGIN DELETE FROM t; END",
    "CREATE TABLE t (x, CHECK (hex(zeroblob(1000000)) NOT LIKE '%0%0%0%0%0%0%1'))",
    "CREATE TABLE t (x, y AS (x || x), z AS (y || y))",
    "CREATE VIRTUAL TABLE t USING fts5(x)",
)


@pytest.mark.parametrize("suffix", ["", "-journal", "-wal", "-shm"])
@pytest.mark.parametrize("what", OPENING)
def test_a_pipe_in_the_place_of_a_file_of_the_database_is_refused(what, suffix, tmp_path):
    """SQLite waits until somebody writes to it."""
    sqlite3.connect(tmp_path / "x.db").close()
    (tmp_path / f"x.db{suffix}").unlink(missing_ok=True)
    os.mkfifo(tmp_path / f"x.db{suffix}")
    with pytest.raises(InputError, match=r"expected .* found"):
        OPENING[what](tmp_path / "x.db")


def test_pages_tell_no_address_in_the_store_of_what_is_registered(tmp_path, monkeypatch):
    from mlflow.exceptions import MlflowException
    from mlflow.utils.validation import _validate_webhook_url

    sqlite3.connect(tmp_path / "x.db").close()
    for name, value in _environment(f"sqlite:///{tmp_path}/x.db").items():
        if name.startswith("MLFLOW_WEBHOOK"):
            monkeypatch.setenv(name, value)
    with pytest.raises(MlflowException, match="Allowed schemes are: none"):
        _validate_webhook_url("https://example.org/hook")


@pytest.mark.parametrize("sql", SQL)
@pytest.mark.parametrize("what", OPENING)
def test_a_database_that_brings_sql_of_its_own_is_refused(what, sql, tmp_path):
    """The view had a sweep read rows without end, deaf to Ctrl-C, until the memory was full."""
    with closing(sqlite3.connect(tmp_path / "x.db")) as db:
        db.executescript(sql)
    with pytest.raises(InputError, match="expected tables without SQL that runs by itself, found"):
        OPENING[what](tmp_path / "x.db")


@pytest.mark.parametrize("what", ["MLflow's store", "a sweep"])
def test_a_database_that_the_libraries_made_is_taken(what, tmp_path):
    for _ in range(2):
        OPENING[what](tmp_path / "x.db")
        check_database(tmp_path / "x.db")


def test_a_journal_may_be_gone_when_it_is_looked_at(tmp_path, monkeypatch):
    """Another process of a shared study may have committed in between."""
    database, journal = tmp_path / "study.db", tmp_path / "study.db-journal"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE t (a)")
    journal.touch()
    look = Path.is_file

    def is_file(path):
        there = look(path)
        if path == journal:
            journal.unlink(missing_ok=True)
        return there

    monkeypatch.setattr(Path, "is_file", is_file)
    check_database(database)
    assert not os.path.lexists(journal)
