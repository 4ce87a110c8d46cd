"""A run has one owner: its directory is there whole or not at all, and locked by who writes."""

import os
import signal
import time
from pathlib import Path

import pytest

from framework.errors import InputError
from framework.experiment.config import RunConfig, check
from framework.experiment.execute import new_run
from framework.experiment.run_dir import RunDir
from framework.files import locked
from tests.command import TOY, call, start, write

LONG = TOY | {"budget": {"seconds": 60}}
CONFIG = check(RunConfig, LONG, Path("long.yaml"))


def test_a_second_resume_is_refused_and_no_journal_is_moved(tmp_path):
    write(tmp_path / "long.yaml", LONG)
    running = start("run", "long.yaml", "--quiet", "--out", "run", cwd=tmp_path)
    try:
        while not (tmp_path / "run" / "journal.bin").exists():
            assert running.poll() is None, running.communicate()
            time.sleep(0.05)
        for word in (["resume", "run"], ["run", "long.yaml", "--out", "run"]):
            done = call(*word, "--quiet", cwd=tmp_path, code=2)
            assert len(done.err.splitlines()) == 1
            assert "found that another process does" in done.err or "found a run" in done.err
        assert running.poll() is None
        assert not list(tmp_path.rglob("*.torn"))
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate()
    with RunDir(tmp_path / "run").owned():  # its death let go of the lock
        pass


def test_a_choice_waits_for_another(tmp_path):
    """Else two write one picture, and choice and model may be of two solutions."""
    write(tmp_path / "toy.yaml", TOY)
    call("run", "toy.yaml", "--quiet", "--no-plots", "--out", "run", cwd=tmp_path, code=0)
    choice = tmp_path / "run" / "choice.json"
    with locked(choice.with_suffix(".lock")):
        process = start("choose", "run", "--best", "f1", cwd=tmp_path)
        assert "waits until another choice" in process.stderr.readline()
        assert not choice.exists()
    process.communicate(timeout=60)
    assert (process.returncode, choice.exists()) == (0, True)


def test_the_changed_front_of_a_repeat_is_written_again_with_the_others(tmp_path):
    """A repeat cannot be resumed alone."""
    write(tmp_path / "toy.yaml", TOY)
    words = ["--repeats", "2", "--quiet", "--no-plots", "--out", "run"]
    call("run", "toy.yaml", *words, cwd=tmp_path, code=0)
    front = RunDir(tmp_path / "run").children()[1].front_file
    before = front.read_bytes()
    front.write_bytes(before[:-1])
    said = call("compare", "run", cwd=tmp_path, code=2).err
    assert "changed since; put it back, or resume the run (of several, the whole directory)" in said
    call("resume", "run", "--quiet", "--no-plots", cwd=tmp_path, code=0)
    assert front.read_bytes() == before


def test_each_result_of_a_run_that_was_changed_is_refused_and_written_again(tmp_path):
    """Only the front was; another table, or none, was told as what the method returned."""
    zed = {"kind": "function", "name": "zed1"}, {"kind": "fch_emoa", "population": 10}
    config = TOY | dict(zip(("problem", "algorithm"), zed, strict=True))
    config["objectives"] = [{"metric": f"f{k}", "sense": "min"} for k in (1, 2, 3)]
    write(tmp_path / "zed.yaml", config | {"budget": {"evaluations": 40}})
    call("run", "zed.yaml", "--quiet", "--no-plots", "--out", "run", cwd=tmp_path, code=0)
    run_dir = RunDir(tmp_path / "run")
    before = {name: (run_dir.path / name).read_bytes() for name in run_dir.summary()["files"]}
    assert list(before) == ["front.csv", "hull.csv", "returned.csv"]
    run_dir.returned_file.unlink()
    run_dir.front_file.write_bytes(before["front.csv"] + b"\n")
    (run_dir.path / "hull.csv").write_bytes(before["hull.csv"] + b"\n")
    assert run_dir.changed == list(before)
    for read in (run_dir.front, run_dir.returned, lambda: run_dir.listing("hull")):
        with pytest.raises(InputError, match=r"as the run wrote it|found none to read"):
            read()
    call("resume", "run", "--quiet", "--no-plots", cwd=tmp_path, code=0)
    assert {name: (run_dir.path / name).read_bytes() for name in before} == before


def test_the_owner_enters_again(tmp_path):
    run_dir = RunDir(tmp_path)
    with run_dir.owned():
        with run_dir.owned():
            pass
        with pytest.raises(InputError, match="another process does"), RunDir(tmp_path).owned():
            pass
    with RunDir(tmp_path).owned():
        pass


def test_a_directory_appears_with_its_configuration_and_its_owner(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []
    rename = os.rename

    def watched(source, target):
        # grants of the session, where there are any, lie beside the configuration
        seen.append(sorted({*os.listdir(source)} - {"allowed.json"}))
        with pytest.raises(InputError):
            RunDir(source).owned().__enter__()
        rename(source, target)

    monkeypatch.setattr(os, "rename", watched)
    with new_run(CONFIG, None, sweep_file="a: 1") as run_dir:
        assert seen == [[".lock", "config.yaml", "sweep.yaml"]]
        run_dir.write_summary({})
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [run_dir.path.name]


@pytest.mark.parametrize("exists", [False, True])
def test_where_no_search_has_begun_nothing_is_left(tmp_path, exists):
    path = tmp_path / "folder" / "run"
    if exists:
        path.mkdir(parents=True)
        (path / "mine.txt").touch()
    with new_run(CONFIG, str(path)):
        assert (path / "config.yaml").is_file()
    left = [p.name for p in path.parent.rglob("*")]
    assert left == (["run", "mine.txt"] if exists else [])


def test_what_a_killed_process_has_left_is_removed_once_it_is_old(tmp_path):
    for name, age in ((".paretolab-old", 3600), (".paretolab-new", 0)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    with new_run(CONFIG, str(tmp_path / "run")) as run_dir:
        run_dir.write_summary({})
    assert sorted(p.name for p in tmp_path.iterdir()) == [".paretolab-new", "run"]
