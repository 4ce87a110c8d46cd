"""``paretolab.run`` and ``resume`` do what the command does."""

import sys
from pathlib import Path

import numpy as np
import pytest

import paretolab
from tests.command import SMALL, TOY, environment, run_program, small, write


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> paretolab.RunResult:
    return paretolab.run(SMALL, out=tmp_path_factory.mktemp("runs") / "one", quiet=True)


def test_what_a_run_leaves(result: paretolab.RunResult) -> None:
    assert result.summary["status"] == "done"
    assert result.config.name == "small"
    assert len(result.front) == result.summary["front_size"] > 1
    assert (result.directory / "model" / "model.json").is_file()
    assert (result.directory / "plots" / "explore.html").is_file()
    again = paretolab.RunResult(result.directory)
    assert again.front.frame().equals(result.front.frame())
    assert (
        repr(again) == f"RunResult({str(result.directory)!r}, done, {len(again.front)} solutions)"
    )


def test_file_mapping_and_checked_configuration_are_one(result, tmp_path):
    path = write(tmp_path / "small.yaml", SMALL)
    for number, config in enumerate([path, paretolab.load_config(path)]):
        other = paretolab.run(config, out=tmp_path / str(number), quiet=True, plots=False)
        assert other.front.frame().equals(result.front.frame())


def test_the_chosen_model_is_the_solution(result: paretolab.RunResult) -> None:
    model = result.choose(where="cost<=19", best="accuracy")
    position = paretolab.choose(result.front, where=["cost<=19"], best="accuracy")
    genome = result.front.X[position]
    stages = [np.flatnonzero(genome == stage) for stage in range(genome.max() + 1)]
    assert all(map(np.array_equal, model.stages_, stages))
    assert result.front.rows.values["cost"][position] <= 19


OWN_FILE = """
import os, sys, threading
import paretolab

config, folder, way = eval(sys.argv[1]), sys.argv[2], sys.argv[3]
if way == "checked":  # by a thread: nothing is remembered from there
    loaded = []
    loading = threading.Thread(
        target=lambda: loaded.append(paretolab.load_config("small.yaml", ["name=other"]))
    )
    loading.start()
    loading.join()
    config = loaded[0]
del os.environ["PARETOLAB_ALLOW"]
result = paretolab.run(config, out=folder, quiet=True, plots=False)
print(len(result.choose(best="accuracy").stages_))
print(paretolab.resume(folder, ["budget.generations=3"], quiet=True, plots=False).front.ids.size)
"""


@pytest.mark.quick(1)
@pytest.mark.parametrize("way", ["mapping", "checked"])
def test_a_result_reads_again_what_its_program_read(tmp_path: Path, way: str) -> None:
    data, work = tmp_path / "data" / "d.csv", tmp_path / "work"
    data.parent.mkdir()
    work.mkdir()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    lines = [f"{','.join(map(str, row))},{'yn'[int(row[0] > 0)]}" for row in X]
    data.write_text("\n".join(["a,b,c,d,target", *lines]))
    config = small(problem__dataset={"path": str(data)}, problem__costs=None, budget__generations=1)
    write(work / "small.yaml", config)
    home = {"XDG_CONFIG_HOME": str(tmp_path / "home"), "PARETOLAB_ALLOW": ""}
    if way == "checked":
        home["PARETOLAB_ALLOW"] = f"read={data}"
    command = [sys.executable, "-c", OWN_FILE, repr(config), "run", way]
    done = run_program(command, cwd=work, env=environment(**home))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 2


def test_solutions_that_are_no_models(tmp_path: Path) -> None:
    result = paretolab.run(TOY, out=tmp_path / "run", quiet=True, plots=False)
    with pytest.raises(paretolab.InputError, match="are models, found those of problem 'function'"):
        result.choose()


@pytest.mark.slow
def test_resumed_with_more_budget_is_as_run_with_it(tmp_path: Path) -> None:
    paretolab.run(small(budget__generations=2), out=tmp_path / "a", quiet=True)
    resumed = paretolab.resume(tmp_path / "a", ["budget.generations=5"], quiet=True)
    whole = paretolab.run(small(budget__generations=5), out=tmp_path / "b", quiet=True)
    assert resumed.front.frame().equals(whole.front.frame())
    assert resumed.summary["generations"] == 5


@pytest.mark.slow
def test_quiet_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    paretolab.run(small(budget__generations=1), out=tmp_path / "quiet", quiet=True)
    assert capfd.readouterr() == ("", "")
    paretolab.run(small(budget__generations=1), out=tmp_path / "loud", plots=False)
    out, err = capfd.readouterr()
    assert out == ""
    assert "ended by generations" in err


@pytest.mark.parametrize("start", [paretolab.RunResult, paretolab.resume])
def test_not_a_run(start: object, tmp_path: Path) -> None:
    with pytest.raises(paretolab.InputError, match="expected the directory of a run"):
        start(tmp_path)  # type: ignore[operator]
