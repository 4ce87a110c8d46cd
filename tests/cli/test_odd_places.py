"""Directories that cannot be written, a damaged cache, names that look like markup."""

import ctypes
import os
import shutil

import pytest

from framework.cli.arguments import short_path
from framework.cli.main import main
from tests.command import TOY, call, refused, small, write
from tests.tracking import sweeps


def test_a_name_that_is_too_long_is_a_sentence(capsys):
    refused(capsys, "cannot be used (File name too long)", "compare", "a" * 300)


def without_privilege():
    """Have root mind the permissions of its own files, from the next program on."""
    if os.geteuid() == 0:
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (["run"], {}),
        pytest.param(["run", "--repeats", "2"], {}, marks=pytest.mark.slow),
        pytest.param(["sweep"], sweeps.raw(trials=2), marks=pytest.mark.slow),
    ],
    ids=["one run", "repeats", "sweep"],
)
def test_resume_where_nothing_can_be_written(tmp_path, start, more):
    write(tmp_path / "toy.yaml", TOY | more)
    call(*start, "toy.yaml", "--out", "out", "--quiet", cwd=tmp_path, code=0)
    everything = [tmp_path, *tmp_path.rglob("*")]
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    again = call("resume", "out", cwd=tmp_path, preexec_fn=without_privilege)
    words = ["choose", "out", "--best", "f1"]
    chosen = call(*words, cwd=tmp_path, preexec_fn=without_privilege) if start == ["run"] else None
    for path in everything:
        path.chmod(0o755)
    assert again.code == 2, again.err
    assert "Traceback" not in again.err
    said = again.err.splitlines()[-1]
    assert said.startswith("paretolab: ")
    assert "Permission denied" in said
    if chosen:
        assert (chosen.code, chosen.err) == (0, "out: cannot be written, its own choice stays\n")


def toy_run(folder):
    """Make a small run without pictures; return its directory."""
    config = str(write(folder / "toy.yaml", TOY))
    assert main(["run", config, "--out", str(folder / "out"), "--quiet", "--no-plots"]) == 0
    return folder / "out"


@pytest.mark.parametrize(
    ("name", "word", "found"),
    [
        ("about.json", "resume", "Is a directory"),
        ("front.csv", "resume", "Is a directory"),
        ("journal.bin", "resume", "a directory in the place of a file"),
        ("notes.bin", "resume", "a directory in the place of a file"),
        ("choice.json", "choose", "Is a directory"),
    ],
)
def test_a_folder_in_the_place_of_a_file(tmp_path, capsys, name, word, found):
    out = toy_run(tmp_path)
    (out / name).unlink(missing_ok=True)
    (out / name).mkdir()
    capsys.readouterr()
    assert main([word, str(out), *(["--no-plots"] if word == "resume" else [])]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"paretolab: {out / name}: cannot ")
    assert f"({found})" in said
    assert "move what is there and " in said
    assert "make room" not in said


@pytest.mark.parametrize("name", ["journal.bin", "config.yaml"])
def test_a_folder_in_the_place_of_a_file_of_a_new_run(tmp_path, capsys, name):
    """Nothing is left of the run, which could not be resumed either."""
    (tmp_path / "out" / name).mkdir(parents=True)
    words = [str(write(tmp_path / "toy.yaml", TOY)), "--out", str(tmp_path / "out"), "--no-plots"]
    for _ in range(2):
        assert main(["run", *words]) == 2
        said = capsys.readouterr().err.splitlines()[-1].lower()
        assert said.startswith("paretolab: ")
        assert "a directory" in said
        assert "resume" not in said
        assert {path.name for path in (tmp_path / "out").iterdir()} <= {name, ".lock"}


@pytest.mark.parametrize(("name", "code"), [("choice.json", 2), ("report.html", 0)])
def test_a_full_disk_is_told_with_the_file_that_it_has_no_room_for(
    tmp_path, capsys, monkeypatch, name, code
):
    out, written = toy_run(tmp_path), os.replace

    def full(part, path):
        if os.path.basename(path) == name:
            raise OSError(28, "No space left on device")
        written(part, path)

    monkeypatch.setattr("framework.files.os.replace", full)
    capsys.readouterr()
    assert main(["choose", str(out), "--best", "f1"]) == code
    told = capsys.readouterr().err.splitlines()[-1]
    assert "No space left on device" in told
    assert str(out / name) in told
    assert (out / "choice.json").is_file() == (code == 0)  # without pictures, the choice stands


@pytest.mark.parametrize("damage", ["journal", "plots"])
def test_a_choice_stands_without_pictures(tmp_path, capsys, damage):
    """Of a cut journal or a file in their place they are not drawn; the choice was not told."""
    out = toy_run(tmp_path)
    if damage == "plots":
        shutil.rmtree(out / "plots", ignore_errors=True)
        (out / "plots").touch()
    else:
        os.truncate(out / "journal.bin", (out / "journal.bin").stat().st_size - 1)
    capsys.readouterr()
    assert main(["choose", str(out), "--best", "f1"]) == 0
    told = capsys.readouterr()
    assert "chosen (*): solution" in told.out
    assert "not drawn: " in told.err
    assert ("move what is there" in told.err) == (damage == "plots")
    assert (out / "choice.json").is_file()


@pytest.mark.slow
def test_a_damaged_cache_is_made_again(place):
    cache = place / "damaged"
    env = {"PARETOLAB_CACHE": str(cache)}
    write(place / "short.yaml", small(budget={"generations": 1}))
    call("run", "short.yaml", "--no-plots", "--out", "sound", cwd=place, env=env, code=0)
    (file,) = cache.glob("parts-*.bin")
    whole = file.read_bytes()
    file.write_bytes(b"this is no store, whatever its name says" * 200)
    again = call("run", "short.yaml", "--no-plots", "--out", "damaged run", cwd=place, env=env)
    assert again.code == 0, again.err
    assert "not kept on disk" not in again.err
    assert len(file.read_bytes()) == len(whole)
    fronts = [(place / name / "front.csv").read_bytes() for name in ("sound", "damaged run")]
    assert fronts[0] == fronts[1]
    shutil.rmtree(cache)


@pytest.mark.quick(1)
@pytest.mark.parametrize("closed", [(0, 1, 2), (0, 1), (2,)])
def test_standard_streams_that_are_closed(tmp_path, closed):
    """As daemons have them. No file takes their place, where libraries would write into it."""
    write(tmp_path / "toy.yaml", TOY)
    for code in (0, 2):  # the second time there is a run in the folder
        arguments = ["run", "toy.yaml", "--out", "out", "--quiet"]
        done = call(*arguments, cwd=tmp_path, preexec_fn=lambda: list(map(os.close, closed)))
        assert (done.code, "Traceback" in done.err) == (code, False)
        assert bool(done.out) is (1 not in closed and not code)


def test_a_user_without_a_home(tmp_path, monkeypatch, capsys):
    """As in containers with any number for the user. What ``~`` would be here grants nothing."""
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PARETOLAB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "toy.yaml", TOY)
    assert main(["run", "toy.yaml", "--out", "out", "--quiet", "--allow", "read=~nobody/x"]) == 0
    refused(capsys, "no home of this user; set HOME", "trust", "--list")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "toy.yaml"]


def test_a_current_directory_that_is_gone(tmp_path, monkeypatch):
    """Ray removes that of a job when its driver leaves the cluster."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert short_path(tmp_path / "run") == str(tmp_path / "run")


def test_a_lack_of_memory_is_told_in_one_sentence(capsys, monkeypatch):
    def run(args):
        raise MemoryError("Unable to allocate 177. GiB")

    monkeypatch.setattr("framework.cli.check.Check.run", run)
    assert main(["check", "configs/quickstart.yaml"]) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert "memory does not suffice (Unable to allocate 177. GiB)" in told
