"""Files appear whole; locks end with the process that holds them."""

import os
import signal
import time
from pathlib import Path

import pytest

from framework.files import locked, room_in, whole_folder, write_whole
from tests.killing import Steps


@pytest.mark.parametrize("content", ["grün\n", b"\x00\xff", "x" * 3_000_000])
def test_written_as_given(tmp_path, content):
    path = tmp_path / "file"
    for _ in range(2):  # a file that is there is replaced
        write_whole(path, content)
        expected = content if isinstance(content, bytes) else content.encode()
        assert path.read_bytes() == expected
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_killed_at_any_step_it_is_the_old_one_or_the_new_one(tmp_path):
    path = tmp_path / "file"
    seen = set()
    for step in range(1, 10):
        path.write_text("old")
        child = os.fork()
        if not child:
            Steps(step)
            write_whole(path, "new")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        seen.add(path.read_text())
        if not os.WIFSIGNALED(status):
            break
    assert step > 2
    assert seen == {"old", "new"}


def test_a_full_disk_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as refused:
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert refused.value.filename == str(path)  # which the system does not say
    assert str(refused.value) == f"[Errno 28] No space left on device: {str(path)!r}"
    assert os.listdir(tmp_path) == ["file"]
    folder = tmp_path / "folder"
    with pytest.raises(OSError, match="No space left") as refused, whole_folder(folder):
        full(0)
    assert refused.value.filename == str(folder)
    assert os.listdir(tmp_path) == ["file"]


def test_ctrl_c_leaves_the_old_ones_alone(tmp_path, monkeypatch):
    path, folder, rename = tmp_path / "file", tmp_path / "folder", Path.rename
    path.write_text("old")
    (folder / "old").mkdir(parents=True)

    def interrupted(what, *target):
        if target and what.name != "fresh":
            return rename(what, *target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, "new")
    with pytest.raises(KeyboardInterrupt), whole_folder(folder):
        pass
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
    assert os.listdir(folder) == ["old"]


def test_two_writers_at_once_are_not_in_each_others_way(tmp_path, monkeypatch):
    path, fsync = tmp_path / "file", os.fsync

    def meanwhile(descriptor):
        monkeypatch.setattr(os, "fsync", fsync)
        write_whole(path, "of the second")
        assert path.read_text() == "of the second"

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_whole(path, "of the first")
    assert path.read_text() == "of the first"
    assert os.listdir(tmp_path) == ["file"]


def test_what_a_killed_writer_has_left_is_hidden_and_removed_once_it_is_old(tmp_path):
    child = os.fork()
    if not child:
        Steps(2)
        write_whole(tmp_path / "table.csv", "new")
    os.waitpid(child, 0)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".paretolab-")
    for age, names in ((0, [left]), (7200, [])):
        os.utime(left, (time.time() - age,) * 2)
        with room_in(tmp_path):
            pass
        assert list(tmp_path.iterdir()) == names


def test_what_looks_left_behind_and_is_a_link_leads_nowhere(tmp_path):
    other, near = tmp_path / "other", tmp_path / "runs"
    other.mkdir()
    os.utime(other, (0, 0))
    near.mkdir()
    (near / ".paretolab-0").symlink_to(other)
    with room_in(near):
        assert list(other.iterdir()) == []


def test_a_new_folder_may_be_read_by_others_as_any_folder_may(tmp_path):
    (usual := tmp_path / "usual").mkdir()
    with room_in(tmp_path) as room:
        assert room.stat().st_mode == usual.stat().st_mode


class Busy(Exception):
    """Somebody holds the lock."""


def refuse():
    raise Busy


def holder(path, seconds):
    """Have another process hold a lock for some time; return its id once it does."""
    held = path.with_name("held")
    child = os.fork()
    if not child:
        with locked(path):
            held.touch()
            time.sleep(seconds)
            path.with_name("done").touch()
        os._exit(0)
    while not held.exists():
        time.sleep(0.01)
    return child


def test_a_lock_is_held_until_its_holder_dies(tmp_path):
    path = tmp_path / ".lock"
    child = holder(path, 60)
    with pytest.raises(Busy), locked(path, refuse):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with locked(path, refuse):
        pass


def test_a_lock_is_waited_for(tmp_path):
    path, said = tmp_path / ".lock", []
    child = holder(path, 0.3)
    with locked(path, lambda: said.append("busy")):
        assert (tmp_path / "done").exists()
    os.waitpid(child, 0)
    assert said == ["busy"]
