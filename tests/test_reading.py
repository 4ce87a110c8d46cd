"""Files are opened once, and what was a file when a folder was looked at is no link later."""

import os
import threading
from pathlib import Path

import pytest

from framework.data.table_files import read_frame
from framework.errors import InputError
from framework.files import locked, write_whole
from framework.reading import (
    NoRegularFile,
    TooManyBytes,
    check_no_links,
    digest_of,
    open_regular,
    read_bytes,
)


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    """Return a folder that someone sent, which was looked at; beside it is a secret."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret")
    folder = tmp_path / "sent"
    (folder / "a" / "b").mkdir(parents=True)
    for place in ("file", "a/file", "a/b/file"):
        (folder / place).write_text("own")
    check_no_links(folder, "a run")
    return folder


@pytest.mark.parametrize(
    "read", [open_regular, lambda p: read_bytes(p, 9), lambda p: digest_of(p, 9)]
)
@pytest.mark.parametrize("place", ["file", "a/file", "a/b/file", "a/../file", "./a/b/file"])
def test_a_link_that_is_laid_later_is_not_followed(read, place, sent):
    path = Path(f"{sent}/{place}")
    assert read_bytes(path, 9) == b"own"
    Path(os.path.abspath(path)).unlink()
    Path(os.path.abspath(path)).symlink_to(sent.parent / "secret")
    with pytest.raises(NoRegularFile, match="a link in the place of a file") as caught:
        read(path)
    assert str(caught.value) == f"{path}: a link in the place of a file"


@pytest.mark.parametrize("place", ["a", "a/b"])
def test_a_folder_that_becomes_a_link_is_not_followed(place, sent):
    (sent / place).rename(sent.parent / "gone")
    (sent / place).symlink_to(sent.parent / "outside")
    with pytest.raises(NoRegularFile, match="a link"):
        read_bytes(sent / place / "file", 9)


def test_relative_paths_and_links_to_the_folder_itself(sent, monkeypatch):
    monkeypatch.chdir(sent.parent)
    assert read_bytes(Path("sent/a/file"), 9) == b"own"
    Path("mine").symlink_to(sent)  # the user's own
    check_no_links(Path("mine"), "a run")
    assert read_bytes(Path("mine/a/file"), 9) == b"own"
    with pytest.raises(FileNotFoundError, match="sent/a/none"):
        read_bytes(Path("sent/a/none"), 9)
    Path("other").symlink_to("secret")  # links elsewhere are the user's, too
    assert read_bytes(Path("other"), 9) == b"secret"


def test_a_file_and_a_link_in_turns(sent):
    """Whoever may write there changes one for the other all the time."""
    path, over = sent / "a" / "file", threading.Event()
    spare, link = sent / "a" / "spare", sent / "a" / "link"

    def swap() -> None:
        while not over.is_set():
            spare.write_text("own")
            os.replace(spare, path)
            link.symlink_to(sent.parent / "secret")
            os.replace(link, path)

    swapping = threading.Thread(target=swap)
    swapping.start()
    found = []
    try:
        for _ in range(500):
            try:
                check_no_links(sent, "a run")
                found.append(read_bytes(path, 9))
            except (InputError, NoRegularFile):
                found.append(b"refused")
    finally:
        over.set()
        swapping.join()
    assert set(found) <= {b"own", b"refused"}


def test_other_names_of_files_elsewhere_are_refused_where_files_are_written(sent):
    os.link(sent.parent / "secret", sent / "a" / "other")
    check_no_links(sent, "a model")  # which is read by its digests alone
    with pytest.raises(InputError, match=r"a/other: expected .* a hard link, .* copy the folder"):
        check_no_links(sent, "a run", written=True)


def test_what_is_written_whole_touches_no_file_elsewhere(sent):
    secret = sent.parent / "secret"
    for lay in (os.link, os.symlink):
        (sent / "file").unlink(missing_ok=True)
        lay(secret, sent / "file")
        write_whole(sent / "file", "new")
        assert (sent / "file").read_text() == "new"
        assert secret.read_text() == "secret"
        lay(secret, sent / ".lock")
        with (
            pytest.raises(InputError, match="expected a file that is a lock"),
            locked(sent / ".lock"),
        ):
            pass
        (sent / ".lock").unlink()
        assert secret.read_text() == "secret"


def test_only_regular_files_are_read_and_no_more_than_allowed(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe", tmp_path / "zero", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match="in the place of a file"):
            read_bytes(path, 100)
    (tmp_path / "file").write_bytes(b"x" * 101)
    assert read_bytes(tmp_path / "file", 101) == b"x" * 101
    for read in (read_bytes, digest_of):
        with pytest.raises(TooManyBytes, match="more than 100 bytes"):
            read(tmp_path / "file", 100)
    (tmp_path / "zero").unlink()
    with pytest.raises(InputError, match=r"pipe: expected a file of a run, found a pipe$"):
        check_no_links(tmp_path, "a run")


def test_folders_in_each_other_have_a_limit(tmp_path: Path) -> None:
    """Python's own ways to list and to remove folders end in a RecursionError."""
    (tmp_path / "/".join("a" * 90)).mkdir(parents=True)
    check_no_links(tmp_path, "a run")
    (tmp_path / "/".join("a" * 110)).mkdir(parents=True)
    with pytest.raises(InputError, match="expected at most 100 folders in each other"):
        check_no_links(tmp_path, "a run")
    with pytest.raises(InputError, match="expected at most 100 folders in each other"):
        read_frame(tmp_path)
