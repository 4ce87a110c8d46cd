"""Forged files, opened by the real commands in a watched process: nothing happens outside.

A file is one that is shipped, or a small one of its kind, changed by hypothesis in some places. A
process with Python's audit hooks (:mod:`tests.trust.watched`) opens it: whatever leads beyond the
folder of the file and the working folder (a connection, a file that is written, read, removed or
renamed, a process, code of the file's folder) fails the test, and so does a traceback.
"""

import json
import os
import re
import shutil
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from framework.experiment.run_dir import RunDir
from tests.command import until, write
from tests.conftest import first
from tests.experiment import small
from tests.libraries import builds
from tests.tracking import sweeps
from tests.trust.forgeries import HOSTILE, forged, forged_bytes, placed, trying
from tests.trust.forging import seal
from tests.trust.pages import check_page
from tests.trust.test_hostile_server import Hostile
from tests.trust.test_hot_journals import hot_journal
from tests.trust.watch import PATIENCE, RUN, SHORT, Said, Watched, check

FROM_LIBRARY = {
    "problem": {"kind": "ensemble", "library": {"path": "."}},
    "objectives": [{"metric": "roc_auc", "sense": "max"}, {"metric": "time", "sense": "min"}],
}
CALLS = ("correct", "confidence", "cost")
CASCADE_OBJECTIVES = [{"metric": "accuracy", "sense": "max"}, {"metric": "cost", "sense": "min"}]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with closing(Watched(tmp_path_factory.mktemp("watched"))) as process:
        yield process


@pytest.fixture
def copied(made: dict[str, Path], watched: Watched) -> Callable[[str], Path]:
    """Return what copies a finished directory of some kind to where received ones lie."""
    return lambda kind: shutil.copytree(made[kind], watched.folder() / kind)


def configured(folder: Path, content: dict[str, Any]) -> Path:
    """Write a configuration into a folder; return its file."""
    return write(folder / "config.yaml", content)


@pytest.fixture(params=first(1, 160), ids=["some", "many"])
def times(request: pytest.FixtureRequest) -> int:
    """Return how many times as many files to forge as a quick test does."""
    return int(request.param)


# --- configurations ---------------------------------------------------------------------------

SHIPPED = sorted(p for p in (Path(__file__).parents[2] / "configs").rglob("*.yaml"))
CONFIGURATIONS = {
    "run": (RUN, "run"),
    "experiment": (small.raw(repeats=1), "experiment"),
    "sweep": (sweeps.raw(trials=2), "sweep"),
    "library": ({"library": builds.config().model_dump(mode="json")}, "library"),
}


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_forged_configurations_do_nothing_outside(kind, watched, times):
    content, command = CONFIGURATIONS[kind]

    @trying((1 if command == "library" else 3) * times)
    @given(forged(content), st.integers(0, 7))
    def attempt(changed: Any, turn: int) -> None:
        folder = watched.folder()
        file = folder / "config.yaml"
        text = yaml.safe_dump(changed, allow_unicode=True)
        file.write_bytes(placed(text.encode(), watched.base))
        arguments: list[object] = ["check", file]
        if turn == 0 and command == "run":
            arguments = ["run", file, "--out", folder / "out", *SHORT, "--workers", "serial"]
        elif command == "library":
            arguments = ["library", "build", file, "--out", folder / "out", "--quiet"]
            arguments += ["--workers", "serial", "--set", "library.models=2"]
        elif turn == 0:
            arguments = [command, file, "--out", folder / "out", "--quiet", "--workers", "serial"]
        check(watched.call(*arguments), (arguments, changed))

    attempt()


def test_forged_configurations_that_are_shipped_do_nothing_outside(watched, times):
    contents = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in SHIPPED]

    @trying(5 * times)
    @given(st.sampled_from(contents).flatmap(forged))
    def attempt(changed: Any) -> None:
        file = watched.folder() / "config.yaml"
        text = yaml.safe_dump(changed, allow_unicode=True)
        file.write_bytes(placed(text.encode(), watched.base))
        said = watched.call("trust" if "x" in changed else "check", file)
        # a data set that paretolab knows by its name is fetched: see docs/trust.md
        ours = [e for e in said.effects if re.search("openml|/scikit_learn_data$", e[1])]
        check(said._replace(effects=[e for e in said.effects if e not in ours]), file)

    attempt()


# --- directories: runs, models, libraries -----------------------------------------------------


CERTIFY = ["certify", "DIR", "DIR/fresh.csv", "--where", "coverage>=0.01"]
OPENED: dict[str, tuple[list[str], ...]] = {
    "run": (
        ["choose", "DIR", "--best", "cost", "--no-mlflow"],
        ["choose", "DIR", "--best", "cost", "--no-mlflow", "--export", "DIR/other"],
        ["resume", "DIR", "--quiet", "--no-plots", "--set", "budget.evaluations=24"],
        ["compare", "DIR", "OTHER", "--out", "DIR/compared"],
        ["check", "DIR/config.yaml"],
        ["runs", "DIR"],
    ),
    "sweep": (["resume", "DIR", "--quiet"], ["compare", "DIR", "--out", "DIR/compared"]),
    "experiment": (["resume", "DIR", "--quiet"], ["compare", "DIR", "--out", "DIR/compared"]),
    "model": (["predict", "DIR", "DIR/example.csv"], ["serve", "DIR", "--port", "0"]),
    "cascade": (["predict", "DIR", "DIR/example.csv"], ["serve", "DIR", "--port", "0"]),
    "library": (["library", "show", "DIR"],),
    "certified": (CERTIFY, [*CERTIFY, "--export", "DIR/other"]),
}
EXAMPLES = {"run": 8, "sweep": 2, "experiment": 2, "model": 5, "cascade": 2, "library": 4}
EXAMPLES["certified"] = 2
TEXTS = (".json", ".yaml")
NOT_READ = (".png", ".html", ".md", ".lock")
MADE_IN_EACH_SESSION = ("summary.json", "choice.json", ".lock")


def contents(folder: Path) -> dict[Path, bytes]:
    """Return every file, but for those that are made whenever a run goes on."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {p: p.read_bytes() for p in files if not p.name.endswith(MADE_IN_EACH_SESSION)}


def other_file(data: st.DataObject, file: Path) -> bytes | None:
    """Draw a file in the place of one: other values or texts in it, other bytes, or none."""
    content = file.read_bytes()
    values = file.suffix in (*TEXTS, ".csv") and data.draw(st.integers(0, 3)) > 0
    if values and file.suffix in TEXTS:
        whole = data.draw(forged({"whole": yaml.safe_load(content)})).get("whole")
        text = json.dumps(whole) if file.suffix == ".json" else yaml.safe_dump(whole)
        return text.encode()
    if values:
        value = data.draw(st.sampled_from([v for v in HOSTILE if isinstance(v, str)]))
        lines = content.decode().splitlines()
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = lines[at].replace(lines[at].split(",")[0], f'"{value}"', 1)
        return ("\n".join(lines) + "\n").encode()
    cut = data.draw(st.integers(0, 4))
    if cut == 0:
        return None
    if cut == 1:
        return content[: data.draw(st.integers(0, len(content)))]
    return data.draw(forged_bytes(content or b"\0"))


@pytest.mark.parametrize("kind", OPENED)
def test_forged_directories_do_nothing_outside(kind, made, other, watched, copied, times):
    """What ends in a sentence leaves rows, fronts, models and configurations as they were."""
    names = sorted(
        path.relative_to(made[kind]).as_posix()
        for path in made[kind].rglob("*")
        if path.is_file() and path.suffix not in NOT_READ and path.name != ".lock"
    )

    @trying(EXAMPLES[kind] * times)
    @given(st.sampled_from(names), st.sampled_from(OPENED[kind]), st.data())
    def attempt(name: str, words: list[str], data: st.DataObject) -> None:
        place = copied(kind)
        content = other_file(data, place / name)
        if content is None:
            (place / name).unlink()
        else:
            (place / name).write_bytes(placed(content, watched.base))
        if kind in ("model", "cascade"):
            seal(place)
        before = contents(place)
        given = {"DIR": str(place), "OTHER": str(other)}
        arguments = [given.get(w, w.replace("DIR", str(place))) for w in words]
        said = watched.call(*arguments, pages=times > 1)
        check(said, (arguments, name, content))
        assert said.code != 2 or contents(place) == before, (arguments, name, content)
        for page in (*place.rglob("report.html"), *place.rglob("explore.html")):
            check_page(page)
        shutil.rmtree(place)

    attempt()


# --- tables and arrays --------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
def test_forged_tables_of_calls_do_nothing_outside(ending, watched, times):
    columns = {f"m{m}:{what}": [(i * m) % 2 for i in range(30)] for m in (1, 2) for what in CALLS}
    table = pd.DataFrame(columns)
    problem = {"kind": "cascade", "calls": {"path": f"calls{ending}"}}
    config = {**RUN, "problem": problem, "objectives": CASCADE_OBJECTIVES}

    @trying(times)
    @given(st.data(), st.booleans())
    def attempt(data: st.DataObject, texts: bool) -> None:
        folder = watched.folder()
        frame = table.copy()
        if texts:  # whole columns and values, else bytes
            at = data.draw(st.integers(0, len(columns) - 1))
            hostile = data.draw(st.sampled_from([v for v in HOSTILE if isinstance(v, str)]))
            frame = frame.rename(columns={frame.columns[at]: f"{hostile}:correct"}).astype(object)
            frame.iloc[3, data.draw(st.integers(0, len(columns) - 1))] = hostile
            frame = frame.astype(str) if ending == ".parquet" else frame
        file = folder / f"calls{ending}"
        frame.to_parquet(file) if ending == ".parquet" else frame.to_csv(file, index=False)
        if not texts:
            file.write_bytes(data.draw(forged_bytes(file.read_bytes())))
        arguments = ["run", configured(folder, config), "--out", folder / "out", *SHORT]
        check(watched.call(*arguments, pages=True), (arguments, texts))
        for page in folder.rglob("*.html"):
            check_page(page)

    attempt()


RESAMPLES = "resamples.npz"
FORGED_ARRAYS: dict[str, Callable[[dict[str, Any]], object]] = {
    "objects": lambda kept: kept.update(low=np.array([Opens()], dtype=object)),
    "other shapes": lambda kept: kept.update(steps=kept["steps"][:, :, :0]),
    "metrics that are none": lambda kept: kept.update(metrics=kept["metrics"] + 10**9),
    "metrics below zero": lambda kept: kept.update(metrics=kept["metrics"] - 10),
    "texts": lambda kept: kept.update(ids=np.array(["<script>"] * len(kept["ids"]))),
    "numbers that are none": lambda kept: kept.update(low=kept["low"] * np.nan),
    "a bomb": lambda kept: kept.update(steps=np.zeros((1, 10**4, 6000), np.uint16)),
    "names that lead out": lambda kept: kept.update({"../../../elsewhere/x": kept["low"]}),
}


class Opens:
    """Opens a file where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch forged",)


@pytest.mark.parametrize("what", [*FORGED_ARRAYS, "bytes"])
def test_forged_arrays_do_nothing_outside(what, made, watched, copied, times):
    change = FORGED_ARRAYS.get(what)
    with np.load(made["run"] / RESAMPLES) as file:
        kept = dict(file)

    @trying(1 if change else times)
    @given(st.data())
    def attempt(data: st.DataObject) -> None:
        place = copied("run")
        if change is None:
            content = data.draw(forged_bytes((place / RESAMPLES).read_bytes()))
            (place / RESAMPLES).write_bytes(content)
        else:
            arrays = dict(kept)
            change(arrays)
            np.savez_compressed(place / RESAMPLES, allow_pickle=True, **arrays)
        summary = RunDir(place).summary()  # a forger gives the digests, too
        RunDir(place).write_summary(summary, *[place / name for name in summary["files"]])
        said = watched.call("choose", place, "--best", "cost", "--no-mlflow", pages=True)
        check(said, what)
        assert said.code == 0, said
        check_page(place / "plots" / "explore.html")
        shutil.rmtree(place)

    attempt()


@pytest.mark.parametrize("what", ["bytes", "objects", "a bomb", "a link", "a link to a folder"])
def test_forged_libraries_do_nothing_outside(what, watched, copied, times):
    @trying(times if what == "bytes" else 1)
    @given(st.data())
    def attempt(data: st.DataObject) -> None:
        place = copied("library")
        file = place / "validation.npy"
        if what == "bytes":
            file.write_bytes(data.draw(forged_bytes(file.read_bytes())))
        elif what == "objects":
            np.save(file, np.array([Opens()], dtype=object), allow_pickle=True)
        elif what == "a bomb":
            with file.open("wb") as stream:
                header = {"descr": "<f4", "fortran_order": False, "shape": (10**9, 10**9)}
                np.lib.format.write_array_header_1_0(stream, header)
        else:
            link, to = (file, "secret.csv") if what == "a link" else (place / "models", ".ssh")
            link.unlink(missing_ok=True)
            link.symlink_to(watched.base / "home" / to)
        run = ["run", configured(place, {**RUN, **FROM_LIBRARY}), "--out", place / "out", *SHORT]
        for arguments in (["library", "show", place], run):
            said = watched.call(*arguments)
            check(said, arguments)
            assert what == "bytes" or said.code == 2, said
        shutil.rmtree(place)

    attempt()


def test_what_is_not_forged_is_done(watched, copied):
    """Else the tests above would show nothing of certificates and libraries."""
    place, library = copied("certified"), copied("library")
    file = configured(library, {**RUN, **FROM_LIBRARY})
    write(place / "build.yaml", CONFIGURATIONS["library"][0])
    build = ["library", "build", place / "build.yaml", "--out", place / "built", "--quiet"]
    for words in (
        *([word.replace("DIR", str(place)) for word in words] for words in OPENED["certified"]),
        ["library", "show", library],
        ["run", file, "--out", place / "out", *SHORT],
        [*build, "--workers", "serial", "--set", "library.models=2"],
    ):
        said = watched.call(*words)
        check(said, words)
        assert said.code == 0, said


LED_OUT = {  # a link of a received directory, and where it leads to in the home of the user
    **dict.fromkeys(("plots", "model", "repeats"), ".ssh"),
    **dict.fromkeys(("front.csv", "model/example.csv"), "secret.csv"),
    **dict.fromkeys((".lock", "course.jsonl", "report.html", "tracking.json"), ".ssh/id_rsa"),
    **dict.fromkeys(("choice.json", "allowed.json", "notes.bin"), ".ssh/id_rsa"),
    **dict.fromkeys(("journal.bin", "journal.bin.torn"), ".ssh/id_rsa"),
}


@pytest.mark.parametrize("name", LED_OUT)
def test_links_of_a_directory_lead_nowhere(name, watched, copied):
    place = copied("run")
    link = place / name
    shutil.rmtree(link) if link.is_dir() else link.unlink(missing_ok=True)
    link.symlink_to(watched.base / "home" / LED_OUT[name])
    for words in OPENED["run"][:3]:
        watched.refuse("found a link to", *(word.replace("DIR", str(place)) for word in words))
    if name.startswith("model/"):
        watched.refuse("found a link to", "predict", place / "model", place / "front.csv")


def test_links_of_an_experiment_lead_nowhere(watched, copied):
    place = copied("experiment")
    file = configured(watched.folder(), CONFIGURATIONS["experiment"][0])
    cell = next(path for path in place.glob("cells/*/*/*") if path.is_dir())
    shutil.rmtree(cell)
    cell.symlink_to(watched.base / "home")
    for words in (
        ["compare", place, "--out", place / "compared"],
        ["experiment", file, "--out", place, "--quiet", "--workers", "serial"],
    ):
        watched.refuse("found a link to", *words)


def test_a_list_of_runs_follows_no_links(watched, copied):
    place = copied("run")
    (place / "front.csv").unlink()
    (place / "front.csv").symlink_to(watched.base / "home" / "secret.csv")
    said = watched.call("runs", place.parent)
    check(said, place)
    assert (said.code, "damaged" in said.out) == (0, True), said


def test_folders_in_which_commands_write_are_no_links(made, watched):
    folder, elsewhere = watched.folder(), watched.base / "elsewhere"
    for name in ("plots", "tables"):
        (folder / name / "out").mkdir(parents=True)
        (folder / name / "out" / name).symlink_to(elsewhere)
        compare = ["compare", made["run"], "--out", folder / name / "out"]
        watched.refuse("found a link to", *compare)
    run = ["run", configured(folder, RUN), *SHORT, "--out", folder / "plots" / "out"]
    watched.refuse("found a link to", *run)
    (folder / "begun").mkdir()
    (folder / "begun" / "cascade.yaml").symlink_to(elsewhere / "new.yaml")  # there is none
    watched.refuse("nothing of yours", "init", "cascade", "--out", folder / "begun")
    assert not (elsewhere / "new.yaml").exists()


@pytest.mark.parametrize("name", ["course.jsonl", ".lock", "front.csv", "choice.json"])
def test_other_names_of_files_elsewhere_are_not_written(name, watched, copied):
    """The watch sees no effect in them: they lie in the folder."""
    precious = watched.base / "elsewhere" / f"precious-{name}"
    precious.write_text("precious")
    place = copied("run")
    (place / name).unlink(missing_ok=True)
    os.link(precious, place / name)
    for words in OPENED["run"][:3]:
        watched.refuse("found a hard link", *(word.replace("DIR", str(place)) for word in words))
    assert precious.read_text() == "precious"


# --- journals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["journal.bin", "notes.bin"])
def test_databases_in_their_place_are_not_opened(file, watched, copied):
    """One with a hot journal would have SQLite remove the file that the end of it names."""
    import sqlite3

    victim = watched.base / "home" / "secret.csv"
    place, before = copied("run"), victim.read_bytes()
    (place / file).unlink(missing_ok=True)
    with closing(sqlite3.connect(place / file)) as db:
        db.execute("CREATE TABLE batches (x DEFAULT (zeroblob(900000000)))")
        db.execute("CREATE TRIGGER t AFTER INSERT ON batches BEGIN DELETE FROM batches; END")
    hot_journal(place / file, bytes(victim))
    said = watched.call("resume", place, *SHORT[:2], "--set", "budget.evaluations=24")
    check(said, file)
    assert victim.read_bytes() == before


# --- the working folder -----------------------------------------------------------------------


@pytest.mark.parametrize("name", [".numba_config.yaml", "matplotlibrc"])
def test_settings_of_libraries_in_the_working_folder_are_not_obeyed(name, watched):
    folder = watched.folder()
    (folder / name).write_text("cache_dir: .\n" if "numba" in name else "text.usetex: True\n")
    configured(folder, RUN)
    grant = f"PARETOLAB_ALLOW=read={folder / name}"
    watched.refuse(grant, "check", "config.yaml", folder=folder)
    watched.refuse("", "trust", name, folder=folder)


# --- the watch itself -------------------------------------------------------------------------


def test_what_is_granted_is_seen_by_the_watch(watched):
    """Else the tests above could not fail."""
    folder = watched.folder()
    problem = {**RUN["problem"], "dataset": {"path": str(watched.base / "home" / "secret.csv")}}
    file = configured(folder, {**RUN, "problem": problem})
    said = watched.call("check", file)
    assert (said.code, said.effects) == (2, [])
    said = watched.call("check", file, "--allow", f"read={watched.base / 'home'}")
    assert said.code == 0
    assert ["open", f"reads {watched.base}/home/secret.csv"] in said.effects
    outside = watched.base / "elsewhere" / "run"
    said = watched.call("run", configured(folder, RUN), "--out", outside, *SHORT)
    events = {event for event, _ in said.effects}
    assert {"open", "os.rename", "os.mkdir"} <= events, said


def test_a_check_that_is_taken_out_is_missed(watched):
    """Else the tests above could not fail: each of the checks keeps an effect from happening."""
    folder, base = watched.folder(), watched.base
    sweep = sweeps.raw(trials=2)
    sweep["sweep"]["storage"] = f"sqlite:///{base}/elsewhere/study.db"
    problem = RUN["problem"]
    sent = {
        "read": {**RUN, "problem": {**problem, "dataset": {"path": str(base / "home/secret.csv")}}},
        "host": {**RUN, "problem": {**problem, "dataset": {"openml": 31}}},
        "class": {**RUN, "problem": {**problem, "classifier": {"kind": "evil.Evil"}}},
        "write": sweep,
    }
    events = {}
    for check_of, content in sent.items():
        file = write(folder / f"{check_of}.yaml", content)
        command = ["sweep", file, "--out", folder / "out", "--quiet"]
        arguments = command if check_of == "write" else ["check", file]
        said = watched.call(*arguments)
        assert (said.code, said.effects) == (2, []), said
        others = [kind for kind in ("variable", "options", "cluster", *sent) if kind != check_of]
        said = watched.call(*arguments, without=others)
        assert (said.code, said.effects) == (2, []), said
        events[check_of] = dict(watched.call(*arguments, without=[check_of]).effects)
    assert events["read"] == {"open": f"reads {base}/home/secret.csv"}
    assert "openml.org" in events["host"]["socket.getaddrinfo"]
    assert events["class"]["exec"] == str(base / "packages/evil.py")
    assert "touch forged" in events["class"]["os.system"]
    assert events["write"]["sqlite3.connect"] == f"{base}/elsewhere/study.db"


def logged(watched: Watched, uri: str, without: Sequence[str]) -> Said:
    """Return what a run did whose configuration names a tracking server."""
    file = configured(watched.folder(), {**RUN, "tracking": {"uri": uri}})
    return watched.call("run", file, *SHORT, without=without)


@pytest.mark.slow
def test_a_variable_that_is_not_asked_for_is_heard(watched):
    server = Hostile()
    uri = f"http://me:${{A_SECRET}}@127.0.0.1:{server.server_address[1]}"
    secret = b64encode(b"me:s3cret").decode()
    with closing(server.socket):
        assert logged(watched, uri, ["host", "options"]).code == 2
        assert server.heard == []
        assert logged(watched, uri, ["variable"]).code == 0
        until(lambda: any(secret in heard for heard in server.heard), PATIENCE)
        server.shutdown()


@pytest.mark.slow
def test_what_processes_do_that_a_command_starts_is_seen(watched):
    said = logged(watched, "http://evil.example", ["host"])
    deadline, effects = time.monotonic() + PATIENCE, said.effects
    while not any("evil.example" in what for _, what in effects):
        assert time.monotonic() < deadline, said
        effects = watched.call("list", "problems").effects


@pytest.mark.slow
def test_a_cluster_that_is_not_asked_for_starts_programs(watched):
    folder = watched.folder()
    sent = {**RUN, "workers": 2, "cluster": {"env_vars": {"PYTHONPATH": str(folder)}}}
    arguments = ["run", configured(folder, sent), *SHORT]
    said = watched.call(*arguments)
    assert (said.code, "--trust-cluster" in said.err) == (2, True), said
    assert "subprocess.Popen" not in dict(said.effects), said
    said = watched.call(*arguments, without=["cluster"])
    assert "subprocess.Popen" in dict(said.effects), said
