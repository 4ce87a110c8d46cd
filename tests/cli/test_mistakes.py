"""Bad input: exit code 2, one clear sentence, nothing left behind."""

import os
import shlex
import subprocess

import pytest

from framework.cli.main import main
from tests.command import PROGRAM, call, free_port, refused, small, write
from tests.conftest import covering


@pytest.fixture
def place(tmp_path):
    write(tmp_path / "small.yaml", small())
    return tmp_path


def refuse(place, *arguments, env=None):
    """Run the command; return its one line of complaint. Nothing new may be left behind."""
    before = listing(place)
    env = {"PARETOLAB_CACHE": "off", **(env or {})}
    done = call(*arguments, cwd=place, env=env)
    assert done.code == 2, (done.code, done.err)
    assert "Traceback" not in done.err
    assert listing(place) == before
    complaints = [line for line in done.err.splitlines() if line.startswith("paretolab: ")]
    assert len(complaints) == 1
    assert done.err.splitlines()[-1] == complaints[0]
    return complaints[0]


@pytest.fixture
def refuse_here(place, monkeypatch, capsys):
    """Do what ``refuse`` does, in this process: it is faster."""
    monkeypatch.chdir(place)
    monkeypatch.setattr("signal.signal", lambda *handler: None)

    def refuse(*arguments):
        there = listing(place)
        assert main(arguments) == 2
        assert listing(place) == there
        said = capsys.readouterr()
        assert said.out == ""
        *before, complaint = said.err.splitlines()
        assert complaint.startswith("paretolab: ")
        assert not any(line.startswith("paretolab: ") for line in before)
        return complaint

    return refuse


def listing(place):
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


# --- the configuration ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "bad.yaml: cannot read the configuration: no such file or directory"),
        (b"sweep: {}", "bad.yaml: expected a run, found a sweep; use `paretolab sweep bad.yaml`"),
        (b"library: {}", "expected a run, found a library; use `paretolab library build bad.yaml`"),
    ],
    ids=str,
)
def test_configuration_file(place, refuse_here, content, sentence):
    if content is not None:
        (place / "bad.yaml").write_bytes(content)
    assert sentence in refuse_here("run", "bad.yaml", "--out", "new")


@pytest.mark.parametrize("out", [[], ["--out", "new/deep/er"]])
def test_a_first_run_that_is_refused_leaves_no_folder(place, refuse_here, out):
    write(place / "bad.yaml", small(objectives=[{"metric": "price", "sense": "min"}]))
    assert "found 'price'" in refuse_here("run", "bad.yaml", *out)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    covering(
        ["run missing.yaml", "--help", "list", "run --help", "--version", "schema"], ["", "1"]
    ),
)
def test_where_an_output_is_full(place, arguments, unbuffered):
    env = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        streams = {"stderr" if "missing" in arguments else "stdout": full}
        done = subprocess.run([PROGRAM, *arguments.split()], cwd=place, env=env, **streams)
    assert done.returncode == 2


def test_a_path_that_is_no_text_of_the_locale(place):
    write(place / "bad.yaml", small(problem__dataset={"path": "ä→.csv", "target": "y"}))
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    sentence = refuse(place, "run", "bad.yaml", env=env)
    assert sentence.startswith("paretolab: bad.yaml: problem.dataset.path: expected the path of a")
    assert sentence.endswith("(no text of this locale; set PYTHONUTF8=1)")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--set seed.sub=1", "seed: expected a whole number, found {'sub': 1}"),
        ("--address somewhere", "Ray address: expected host:port or auto, found 'somewhere'"),
        ("--out small.yaml/x", "--out small.yaml/x: expected a directory that can be written"),
        ("--workers 0", "workers: expected auto, serial, all or 1 or more, found '0'"),
        ("--workers ²", "workers: expected auto, serial, all or 1 or more, found '²'"),
        ("--set generations=5", "did you mean 'budget.generations'?"),
        ("--repeats 0", "repeats: expected a number of at least 1, found 0"),
        ("--repeats 1000000000", "repeats: expected at most 10,000"),
        ("--seed -1", "seed: expected a number of at least 0, found -1"),
        ("--sede", "run: expected arguments that `paretolab run --help-all` lists, found '--s"),
    ],
)
def test_options(refuse_here, arguments, sentence):
    words = ["run", "small.yaml", "--out", "new", *shlex.split(arguments)]
    assert sentence in refuse_here(*words)


# --- problems and algorithms; mistakes of any configuration: tests/test_config.py ------------


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"problem__dataset": {"sklearn": "iris", "targett": "x"}}, "did you mean 'target'?"),
        ({"algorithm__mutation_rte": 0.1}, "did you mean 'mutation_rate'?"),
        ({"algorithm__population": 1}, "expected a number of at least 2, found 1"),
        ({"algorithm__crossover_rate": 1.5}, "expected a number of at most 1, found 1.5"),
        ({"problem__kind": "multistag"}, "found 'multistag'; did you mean 'multistage'?"),
        ({"objectives": [{"metric": "acuracy", "sense": "max"}]}, "objectives: expected a metric "),
        ({"constraints": [{"metric": "price", "at_most": 3}]}, "constraints: expected a metric of"),
        ({"objectives": [{"metric": "cost", "sense": "min"}] * 2}, "expected each metric once"),
        ({"problem__costs": {"values": [1]}}, "6 entries, one a feature ('target' is not one), "),
        ({"problem__costs": {"path": "no costs.csv"}}, "no costs.csv: expected a CSV file"),
        ({"problem__dataset": {"name": "sonarr"}}, "did you mean 'sonar'?"),
        ({"problem__costs": {"path": "\0"}}, "expected the path of a file, found '\\x00'"),
        (
            {"problem__classifier": {"kind": "k_neighbors", "metric": "no_such"}},
            "expected values that KNeighborsClassifier takes, found: The 'metric'",
        ),
        ({"problem__dataset": {"path": "no.csv"}}, "no.csv: expected a CSV or Parquet file, found"),
    ],
    ids=str,
)
def test_problem(place, refuse_here, changes, sentence):
    write(place / "bad.yaml", small(**changes))
    assert sentence in refuse_here("run", "bad.yaml", "--out", "new")


@pytest.mark.slow
def test_known_data_set_that_cannot_be_downloaded(place):
    write(place / "bad.yaml", small(problem__dataset={"name": "sonar"}, problem__costs=None))
    nowhere = {f"{scheme}_proxy": "http://127.0.0.1:9" for scheme in ("http", "https")}
    env = {**nowhere, "no_proxy": "", "SCIKIT_LEARN_DATA": str(place)}
    done = call("run", "bad.yaml", "--out", "new", cwd=place, env=env, code=2)
    assert "found no way to download it" in done.err
    assert "put the table in a folder and set PARETOLAB_DATA to it" in done.err
    assert not (place / "new").exists()


# --- directories ----------------------------------------------------------------------------


def test_directory_that_holds_a_run(place):
    (place / "my old").mkdir()
    (place / "my old" / "config.yaml").write_text("name: other")
    said = refuse(place, "run", "small.yaml", "--out", "my old")
    sentence = "my old: expected a new directory, found a run in it; `paretolab resume 'my old'`"
    assert f"--out {sentence}" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_directory_without_permission(place):
    (place / "locked").mkdir(mode=0o500)
    said = refuse(place, "run", "small.yaml", "--out", "locked/new")
    assert "expected a directory that can be written, found: Permission denied" in said


def test_what_lies_in_a_directory_stays_there(place):
    """A run that cannot start must not clear a directory it has not made."""
    (place / "mine").mkdir()
    (place / "mine" / "notes.txt").write_text("keep")
    write(place / "bad.yaml", small(problem__max_stages=7))
    refuse(place, "run", "bad.yaml", "--out", "mine")
    assert (place / "mine" / "notes.txt").read_text() == "keep"


@pytest.mark.parametrize("command", ["resume", "choose"])
@pytest.mark.parametrize("directory", ["nowhere", "."])
def test_directory_without_a_run(place, command, directory):
    sentence = f"{directory}: expected the directory of a run, found no config.yaml in it"
    assert sentence in refuse(place, command, directory)


def test_choose_before_the_run_has_a_front(place):
    (place / "begun").mkdir()
    write(place / "begun" / "config.yaml", small())
    said = refuse(place, "choose", "begun")
    assert "begun: expected a finished run, found no front.csv; run `" in said
    assert "paretolab resume begun` first" in said


def test_choose_from_a_sweep_that_has_ended(place):
    """To resume it first, as was advised, changes nothing: its trials have the fronts."""
    for number in ("000", "001"):
        (place / "swept" / "trials" / number).mkdir(parents=True)
    write(place / "swept" / "config.yaml", small())
    (place / "swept" / "sweep.yaml").touch()
    (place / "swept" / "trials" / "001" / "front.csv").touch()
    said = refuse(place, "choose", "swept")
    assert "swept: expected a run, found a sweep, whose runs have a front each; give one" in said
    assert "such as swept/trials/001" in said


# --- Ray ------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeats", ["1", "2"])
def test_address_where_nothing_runs(place, repeats):
    port = free_port()
    options = f"--out new --repeats {repeats} --address 127.0.0.1:{port}"
    said = refuse(place, "run", "small.yaml", *options.split())
    assert f"no Ray runs at 127.0.0.1:{port}" in said


# --- argparse's own -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("rnu", "expected a command, found 'rnu'; did you mean 'run'?; `paretolab --help`"),
        ("--quiet xyz", "expected a command, found 'xyz'; `paretolab --help` lists them"),
        ("run", "the following arguments are required: CONFIG"),
        ("ui --uri foo://", "--uri: expected an address that begins with postgresql"),
        ("choose . --register a/b", "expected a name without / and :, found 'a/b'"),
        ("sync . --register ''", "--register: expected a name without / and :, found ''"),
        ("serve model --host ''", "serve: expected a text for each argument, found an emp"),
        ("run small.yaml --seed x", "argument --seed: invalid int value: 'x'"),
        ("list things", "invalid choice: 'things'"),
    ],
)
def test_arguments(capsys, arguments, sentence):
    try:
        code = main(shlex.split(arguments))
    except SystemExit as ended:  # argparse's own way
        code = ended.code
    assert code == 2
    assert sentence in capsys.readouterr().err


def test_an_interruption_that_a_compiled_module_hides_is_one(monkeypatch, capsys):
    def imported(args):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            try:
                raise ValueError("no valid PEP 3118 buffer format string") from error
            except ValueError:
                raise ImportError("a module of it cannot be imported")  # noqa: B904

    monkeypatch.setattr("framework.cli.list.List.run", staticmethod(imported))
    assert main(["list", "metrics"]) == 130
    assert capsys.readouterr().err.strip() == "paretolab: interrupted"


def test_no_and_yes_are_words_where_they_are_choices(tmp_path, capsys):
    heads = [f"{model}:{field}" for model in "mn" for field in ("correct", "confidence", "cost")]
    calls = [",".join(heads), *(f"1,0.{i},1,{i % 2},0.5,2" for i in range(9))]
    (tmp_path / "calls.csv").write_text("\n".join(calls))
    text = """name: plain
problem: {kind: cascade, calls: {path: calls.csv, costs: [cost]}, abstain: no}
objectives: [{metric: accuracy, sense: max}, {metric: cost, sense: min}]
algorithm: random
budget: {evaluations: 9}
tracking: null
"""
    file = tmp_path / "plain.yaml"
    file.write_text(text)
    assert main(["check", str(file)]) == 0
    file.write_text(text.replace("abstain: no", "abstain: yes"))
    refused(capsys, "expected another value than true or false", "check", file)
    file.write_text(text.replace("abstain: no", "abstain: [no, last]"))
    refused(capsys, "'last' or 'early', found ['no', 'last']", "check", file)
