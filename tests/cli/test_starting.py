"""Starting configurations, the list of runs, and completion in a real shell."""

import re
import signal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from framework.cli.main import main
from framework.experiment.config import load_config
from tests.command import run_program


@pytest.fixture
def command(capsys):
    """Run a command in this process; return its code and what it printed."""
    before = signal.getsignal(signal.SIGTERM)

    def run(*arguments):
        code = main(arguments)
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    yield run
    signal.signal(signal.SIGTERM, before)


KINDS = ["cascade", "ensembling", "experiment", "hull", "multistage", "pruning"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_written_whole_and_can_be_read(command, kind, tmp_path):
    done = command("init", kind, "--out", str(tmp_path / "mine"))
    assert done.code == 0, done.err
    path = tmp_path / "mine" / f"{kind}.yaml"
    text = path.read_text(encoding="utf-8")
    assert text.startswith("#")
    if kind == "experiment":
        path = tmp_path / "mine" / "cancer.yaml"
    else:
        assert str(path) in done.out
    assert "<-" in path.read_text(encoding="utf-8")
    assert load_config(path).name
    again = command("init", kind, "--out", str(tmp_path / "mine"))
    assert again.code == 2
    assert "nothing of yours is overwritten" in again.err


def test_init_lists_configurations_that_commands_take_anywhere(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command("init", "--list")
    assert done.code == 0
    assert "hull, multistage, pruning" in done.out
    assert " run configs/quickstart.yaml" in done.out
    assert " sweep configs/sweeps/quickstart.yaml" in done.out
    assert "configs/emsco/heart.yaml" not in done.out
    assert "configs/emsco/heart.yaml" in command("init", "--list", "--all").out
    assert command("check", "configs/quickstart.yaml").code == 0
    assert command("init", "configs/emsco/heart.yaml").code == 0
    assert load_config(tmp_path / "heart" / "heart.yaml").name
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "quickstart.yaml").write_text("mine: 1", encoding="utf-8")
    assert "mine" in command("check", "configs/quickstart.yaml").err  # the user's goes first


def test_init_knows_its_kinds(command, tmp_path):
    (tmp_path / "my.csv").write_text("a,b\n1,2\n")
    done = command("init", str(tmp_path / "my.csv"))
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert "; for a table: " in done.err
    assert done.err.endswith(f"init KIND --table {tmp_path}/my.csv --target COLUMN\n")
    done = command("init", "prunning", "--out", str(tmp_path / "mine"))
    assert done.code == 2
    assert "did you mean 'pruning'?" in done.err
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "experiment"])
def test_a_template_takes_a_table(command, kind, tmp_path, cache):
    """It is written beside the table, which may then be read without a grant."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 4)), columns=["a", "b: c", "d", "e"])
    table["was?"] = np.where(table["a"] > 0, "yes", "no")
    table.to_csv(tmp_path / "mine & yours.csv", index=False)
    words = ("--table", str(tmp_path / "mine & yours.csv"), "--target", "was?")
    done = command("init", kind, *words)
    assert done.code == 0, done.err
    config = load_config(tmp_path / f"{kind}.yaml")
    assert config.name == "mine-yours"
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".yaml"}
    checked = command("check", str(tmp_path / f"{kind}.yaml"), "--set", "tracking=null")
    assert checked.code == 0, checked.err
    assert "NOT granted" not in checked.out
    assert command("init", kind, *words).code == 2  # nothing is overwritten


def test_a_table_elsewhere_is_to_be_granted_before_it_is_checked(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARETOLAB_ALLOW", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    text = "a,b,y\n" + "".join(f"{i % 7},{i % 5},{'no' if i % 2 else 'yes'}\n" for i in range(60))
    (tmp_path / "here.csv").write_text(text)
    done = command("init", "multistage", "--table", "here.csv", "--target", "y", "--out", "new")
    commands = re.findall("([a-z]+) (new/multistage.yaml)", done.out.splitlines()[-1])
    assert [name for name, _ in commands] == ["trust", "check"]
    for words in commands:
        done = command(*words)
        assert done.code == 0, done.err


@pytest.mark.parametrize(("features", "stages"), [(1, 1), (3, 3), (6, 4)])
def test_a_template_has_no_more_stages_than_features(command, features, stages, tmp_path):
    """Columns that are no features, such as identifiers, do not count."""
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(60, features)))
    table = table.add_prefix("x").assign(id=range(60), target=np.where(table[0] > 0, "a", "b"))
    table.to_csv(tmp_path / "small.csv", index=False)
    words = ("--table", str(tmp_path / "small.csv"), "--target", "target")
    assert command("init", "multistage", *words).code == 0
    path = tmp_path / "multistage.yaml"
    assert f"max_stages: {stages} " in path.read_text(encoding="utf-8")
    checked = command("check", str(path), "--set", "tracking=null")
    assert checked.code == 0, checked.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "hull --table no.csv --target y",
            "no.csv: expected a CSV or Parquet file, found no such file",
        ),
        ("hull --table here.csv --target Y", "expected a column 'Y', found none of that name; did"),
        ("hull --table here.csv", "init: expected --table together with --target"),
        ("hull --target y", "init: expected --target together with --table"),
        ("hull --out new/mine.yaml", "--out new/mine.yaml: expected a folder, found the name of"),
        ("experiment --table here.csv --target y", "expected --table with one of cascade, ens"),
        ("configs/quickstart.yaml --table here.csv --target y", "found 'configs/quickstart.yaml'"),
    ],
)
def test_init_refuses(command, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.csv").write_text("a,y\n1,2\n")
    done = command("init", *words.split())
    assert (done.code, sentence in done.err) == (2, True), done.err
    assert [path.name for path in tmp_path.iterdir()] == ["here.csv"]


def test_runs_lists_what_is_there_whatever_its_state(command, tmp_path):
    folder = tmp_path / "runs"
    assert command("runs", str(folder)).code == 2
    assert command("init", "hull", "--out", str(tmp_path / "mine")).code == 0
    config = str(tmp_path / "mine" / "hull.yaml")
    more = ["--set", "budget.evaluations=200", "--set", "tracking=null", "--quiet"]
    made = command("run", config, "--out", str(folder / "done"), *more)
    assert made.code == 0
    shown = dict(re.findall(r"^│ *(\d+)(?: \*)? │.*│ (yes|   ) *│$", made.out, re.M))
    returned = pd.read_csv(folder / "done" / "returned.csv")["id"].astype(str)
    assert shown
    assert {id for id, said in shown.items() if said == "yes"} == set(shown) & set(returned)
    broken = folder / "broken"
    broken.mkdir()
    (broken / "config.yaml").write_text("{", encoding="utf-8")
    begun = folder / "begun"
    begun.mkdir()
    text = (folder / "done" / "config.yaml").read_text(encoding="utf-8")
    (begun / "config.yaml").write_text(text, encoding="utf-8")
    done = command("runs", str(folder))
    assert done.code == 0, done.err
    for words in ("damaged", "running or stopped", "fch_emoa", "200"):
        assert words in done.out


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [("ru", {"run", "runs"}), ("choose --wh", {"--where"}), ("init --o", {"--out"})],
)
def test_bash_completes(command, typed, wanted):
    script = command("completion", "bash").out
    words = ["paretolab", *typed.split(" ")]
    listed = " ".join(f"'{word}'" for word in words)
    last = len(words) - 1
    asked = f"COMP_WORDS=({listed}); COMP_CWORD={last}; _shtab_paretolab; echo ${{COMPREPLY[@]}}"
    done = run_program(["bash", "-c", f"{script}\n{asked}"], check=True, timeout=60)
    assert set(done.stdout.split()) == wanted


def test_help_shows_rare_commands_last_and_rare_options_on_request(command, capsys):
    for arguments in (["--help"], ["choose", "--help"], ["choose", "--help-all"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
    usual, short, full = re.split(
        r"(?=^usage: paretolab choose)", capsys.readouterr().out, flags=re.M
    )
    names = re.findall(r"^  ([a-z]+) ", usual.partition("commands:")[2], re.MULTILINE)
    assert names[:5] == ["init", "check", "run", "resume", "choose"]
    assert {"predict", "ui"} <= set(names)
    assert names[-7:] == ["library", "certify", "list", "sync", "trust", "schema", "completion"]
    assert "--sure" in short
    assert "--per-unit" not in short
    assert "--help-all" in short
    assert {"--per-unit", "--mix", "--trust"} <= set(full.replace("[", " ").split())
