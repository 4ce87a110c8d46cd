"""Framed files and values by key in them, cut, flipped, forged and written by several at once."""

import os
import random
import struct
import zlib
from multiprocessing import get_context
from pathlib import Path

import pytest

from framework.errors import InputError, JournalError
from framework.preparation import Checkpoints
from framework.store import DamagedFrame, Framing, KeyValue, title_of

FRAMING = Framing(b"a title")
CONTENTS = [b"", b"one", bytes(300), b"four" * 7]
WHOLE = FRAMING.beginning + b"".join(map(FRAMING.framed, CONTENTS))


def contents(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return [FRAMING.content(file, frame) for frame in FRAMING.frames(file)]


def test_a_file_that_is_cut_anywhere_has_its_leading_frames(tmp_path: Path) -> None:
    path, stops = tmp_path / "file", [len(FRAMING.beginning)]
    for content in CONTENTS:
        stops.append(stops[-1] + len(FRAMING.framed(content)))
    for cut in range(len(WHOLE) + 1):
        path.write_bytes(WHOLE[:cut])
        with path.open("rb") as file:
            assert title_of(file) == (b"a title" if cut >= stops[0] else None)
        assert contents(path) == CONTENTS[: sum(stop <= cut for stop in stops[1:])]


def test_every_flipped_byte_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for place in range(len(FRAMING.beginning), len(WHOLE)):
        changed = bytearray(WHOLE)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(DamagedFrame):
            contents(path)


@pytest.mark.parametrize("length", [2**31, 2**32 - 1])
def test_lengths_that_no_frame_has_are_refused(tmp_path: Path, length: int) -> None:
    """Their checksums are right, and the file has holes enough for them."""
    path = tmp_path / "file"
    head = struct.pack("<II", length, 0)
    head += struct.pack("<I", zlib.crc32(head, zlib.crc32(b"a title")))
    path.write_bytes(FRAMING.beginning + head)
    os.truncate(path, 2**33)
    with pytest.raises(DamagedFrame):
        contents(path)


def test_the_last_value_of_a_key_counts(tmp_path: Path) -> None:
    store = KeyValue(tmp_path / "values", "ours")
    store.put({b"a": b"1", b"b": b"2", b"": b"nothing"})
    store.put({b"a": b"3"})
    for one in (store, KeyValue(tmp_path / "values", "ours")):
        assert one.get([b"a", b"b", b"", b"c"]) == {b"a": b"3", b"b": b"2", b"": b"nothing"}
    other = KeyValue(tmp_path / "values", "theirs")
    assert other.keys() == []
    other.put({b"c": b"4"})
    assert KeyValue(tmp_path / "values", "theirs").get([b"a", b"c"]) == {b"c": b"4"}


def test_values_survive_cuts_and_flipped_bytes(tmp_path: Path) -> None:
    path, values = tmp_path / "values", {bytes([i]): bytes(i) for i in range(20)}
    store = KeyValue(path, "ours")
    for key, value in values.items():
        store.put({key: value})
    whole, chance = path.read_bytes(), random.Random(0)
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= chance.randrange(1, 256)
        for content in (whole[:place], bytes(changed)):
            path.write_bytes(content)
            found = KeyValue(path, "ours").get(values)
            assert all(values[key] == value for key, value in found.items())
            again = KeyValue(path, "ours")
            again.put({b"new": b"x"})
            assert again.get([*values, b"new"]) == {**found, b"new": b"x"}
            assert KeyValue(path, "ours").get([*values, b"new"]) == {**found, b"new": b"x"}


def test_a_file_that_nobody_shares_does_not_grow(tmp_path: Path) -> None:
    store = KeyValue(tmp_path / "values", "ours")
    for number in range(100):
        store.put({b"same": bytes([number]) * 10**5, b"other": b"x"})
    assert (tmp_path / "values").stat().st_size < 2 * 10**6
    assert store.get([b"same", b"other"]) == {b"same": b"c" * 10**5, b"other": b"x"}


def test_a_file_that_is_removed_meanwhile_is_made_again(tmp_path: Path) -> None:
    store = KeyValue(tmp_path / "values", "ours", shared=True)
    store.put({b"a": b"1"})
    store.path.unlink()
    assert store.keys() == [b"a"]  # it does not matter: its value counts as absent
    assert store.get([b"a"]) == {}
    store.put({b"b": b"2"})
    assert KeyValue(store.path, "ours").get([b"a", b"b"]) == {b"b": b"2"}


def test_a_file_that_another_one_replaced_by_a_longer_one_keeps_its_values(tmp_path: Path) -> None:
    store = KeyValue(tmp_path / "values", "ours", shared=True)
    store.put({b"a": b"1" * 100})
    store.path.unlink()
    others = {bytes([number]): b"2" * 33 for number in range(50)}
    KeyValue(store.path, "ours", shared=True).put(others)
    store.put({b"b": b"3"})
    assert KeyValue(store.path, "ours").get([*others, b"b"]) == {**others, b"b": b"3"}
    assert store.get(others) == others


def _put(path: Path, process: int) -> None:
    store = KeyValue(path, "ours", shared=True)
    for number in range(50):
        store.put({f"{process} {number}".encode(): bytes([process]) * number})
        assert store.get([b"0 0"]) in ({}, {b"0 0": b""})


def test_several_processes_write_to_one_file(tmp_path: Path) -> None:
    path, context = tmp_path / "values", get_context("spawn")
    processes = [context.Process(target=_put, args=(path, number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    keys = [f"{process} {number}".encode() for process in range(4) for number in range(50)]
    found = KeyValue(path, "ours", shared=True).get(keys)
    assert list(map(len, found.values())) == 4 * list(range(50))


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_links_are_not_written_through(tmp_path: Path, link) -> None:  # type: ignore[no-untyped-def]
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    link(precious, tmp_path / "values")
    with pytest.raises((InputError, OSError), match="link"):
        KeyValue(tmp_path / "values", "ours").put({b"a": b"1"})
    assert precious.read_bytes() == b"precious"


def test_checkpoints_are_those_of_one_owner(tmp_path: Path) -> None:
    path = tmp_path / "notes.bin"
    checkpoints = Checkpoints(path, "me")
    assert not path.exists()
    checkpoints["cell 1"], checkpoints["é"] = b"1", b"2"
    checkpoints["cell 1"] = b"3"
    assert dict(Checkpoints(path, "me")) == dict(checkpoints) == {"cell 1": b"3", "é": b"2"}
    assert dict(Checkpoints(path, "you")) == {}
    path.unlink()
    path.mkdir()
    with pytest.raises(JournalError, match="cannot read checkpoints"):
        Checkpoints(path, "me")
