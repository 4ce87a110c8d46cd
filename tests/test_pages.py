"""Every page as its reader follows it: its blocks run in order, what they print is compared."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml
from _pytest.mark import ParameterSet

from framework.cli.library import read_sections
from framework.experiment.config import load_config
from framework.experiment.grid_load import load_grid
from framework.libraries.config import BuildConfig, ImportConfig
from tests.blocks import PAGES, ROOT, Block, blocks, missing
from tracking.sweep.config import load_plan

QUICKSTART = "paretolab run configs/quickstart.yaml\n"  # many pages begin with it: it runs once
Shell = Callable[..., str]


def parts() -> Iterator[ParameterSet]:
    """Yield the pages that run something, divided where an empty folder is asked for."""
    for page in PAGES:
        found: list[list[Block]] = [[]]
        for block in blocks(page):
            if "an empty folder" in block.notes:
                found.append([])
            found[-1].append(block)
        for part in found:
            if any(block.kind in ("commands", "python") for block in part):
                yield pytest.param(part, id=f"{page.name}:{part[0].line}")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Return what runs a command in a folder, and returns what a user sees of it."""
    cache = tmp_path_factory.mktemp("cache")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "COLUMNS": "110", "PARETOLAB_CACHE": str(cache)}
    del variables["PARETOLAB_ALLOW"]  # of the tests: readers have granted nothing

    def run(command: Sequence[str], folder: Path, code: int = 0) -> str:
        done = subprocess.run(
            command,
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # in the order in which a user sees both
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{command[-1]}\n{done.stdout}"
        return done.stdout

    return run


def bash(script: str) -> list[str]:
    # nothing is installed here; `head` would end the command before with a signal
    lines = [line.replace("| head -6", "| sed -n 1,6p") for line in script.splitlines()]
    kept = [line for line in lines if not line.startswith(("pip ", "python3 -m venv"))]
    return ["bash", "-e", "-o", "pipefail", "-c", "\n".join(kept)]


@pytest.fixture(scope="module")
def quickstart(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a folder with the run of the quickstart, and what the command printed."""
    folder = tmp_path_factory.mktemp("quickstart")
    clone(folder)
    printed = shell(bash(QUICKSTART), folder)
    shell(bash("paretolab sync runs/quickstart-001"), folder)
    return folder, printed


def left_out(block: Block) -> bool:
    """Return whether a block is not run here."""
    jq = "jq " in block.text and shutil.which("jq") is None
    data = "needs PARETOLAB_DATA" in block.notes and "PARETOLAB_DATA" not in os.environ
    return "not run" in block.notes or jq or data


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", list(parts()))
def test_a_page_can_be_followed(
    part: list[Block], shell: Shell, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder, before = tmp_path / "here", ""
    text = "".join(block.text for block in part)
    if "an empty folder" in part[0].notes:
        folder.mkdir()
    elif "paretolab sync" in text:  # a copy would be logged where it was made
        clone(folder)
    elif "runs/quickstart-001" in text or QUICKSTART in text:
        made, before = request.getfixturevalue("quickstart")
        shutil.copytree(made, folder)
    else:
        clone(folder)
    follow(part, folder, shell, before)


def test_the_first_commands_print_what_is_shown(shell: Shell, tmp_path: Path) -> None:
    first = list(blocks(ROOT / "docs" / "multistage.md"))[:5]
    assert [block.kind for block in first[-2:]] == ["commands", "output"]
    follow(first, tmp_path, shell)


def follow(part: Sequence[Block], folder: Path, shell: Shell, quickstart: str = "") -> None:
    """Run blocks in a folder, and compare what they print."""
    code, printed = "", ""
    run = True  # whether the last commands or Python did
    for block in part:
        if block.kind == "yaml" and block.text.startswith("# "):
            (folder / block.text.split()[1]).write_text(block.text, encoding="utf-8")
        elif block.kind in ("commands", "python"):
            if not (run := not left_out(block)):
                continue
            for command in block.notes.get("first", []):
                shell(bash(command), folder)
            if block.kind == "python":
                code = code + block.text if "goes on" in block.notes else block.text
                printed = shell([sys.executable, "-c", code], folder)
            elif quickstart and block.text.startswith(QUICKSTART):  # it was run before
                rest = block.text.removeprefix(QUICKSTART)
                printed = quickstart + (shell(bash(rest), folder) if rest else "")
            else:
                (exit_code,) = block.notes.get("exit code", ["0"])
                printed = shell(bash(block.text), folder, int(exit_code))
        elif block.kind == "output" and run and "not run" not in block.notes:
            assert printed, f"line {block.line}: expected a command before what it printed"
            lost = missing(block.text, printed, machine="machine" in block.notes)
            assert not lost, f"line {block.line}: not printed: {lost}\n{printed}"


KINDS = {"commands", "output", "python", "text", "toml", "yaml"}
NOTES = {
    *("an empty folder", "exit code", "first", "goes on", "machine"),
    *("needs PARETOLAB_DATA", "not run"),
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    found = list(blocks(page))
    assert len(found) * 2 == len(re.findall(r"^ *```", page.read_text(encoding="utf-8"), re.M))
    for block in found:
        assert block.kind in KINDS, f"line {block.line}: {block.kind}"
        assert block.notes.keys() <= NOTES, f"line {block.line}: {block.notes}"
        assert all(block.notes.get("not run", ["why"])), f"line {block.line}: expected a reason"
        if block.kind == "toml":
            (groups,) = tomllib.loads(block.text)["project"].values()
            assert groups.keys() <= entry_points().groups


SETTINGS = [
    pytest.param(page, block.text, id=f"{page.name}:{block.line}")
    for page in PAGES
    for block in blocks(page)
    if block.kind == "yaml"
]


@pytest.mark.parametrize(("page", "text"), SETTINGS)
def test_settings_are_taken(
    page: Path, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Put a piece of a configuration into one that lacks nothing, and have it checked."""
    configs = tmp_path / "configs"
    shutil.copytree(ROOT / "configs", configs)
    (tmp_path / "mine").mkdir()  # what clusters.md ships
    granted = f"read={tmp_path};host=db.example.org;variable=DB_PASSWORD;variable=TOKEN"
    monkeypatch.setenv("PARETOLAB_ALLOW", granted)
    piece = yaml.safe_load(text)
    if "library" in piece:
        path = _written(configs / "ensembling" / "page.yaml", piece)
        brought = {"arrays", "models", "tabrepo"} & {
            key for key, value in piece["library"].items() if isinstance(value, dict)
        }
        read_sections(path, [], ImportConfig if brought else BuildConfig)
    elif "experiment" in piece:
        load_grid(_written(configs / "page.yaml", piece))
    elif page.name == "sweeps.md":
        path = configs / "sweeps" / "quickstart.yaml"
        whole = yaml.safe_load(path.read_text(encoding="utf-8"))
        if "start" in piece:  # a directory would have to be there
            piece["start"] = [one for one in piece["start"] if isinstance(one, dict)]
        whole["sweep"] |= piece
        load_plan(_written(path, whole))
    else:
        path = configs / "quickstart.yaml"
        whole = {**yaml.safe_load(path.read_text(encoding="utf-8")), **piece}
        if whole["problem"]["kind"] == "multistage":
            whole["problem"].setdefault("dataset", {"sklearn": "breast_cancer"})
        load_config(_written(path, whole))


def _written(path: Path, raw: object) -> Path:
    path.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    return path


def clone(folder: Path) -> None:
    """Copy what of a clone the pages use."""
    for name in ("configs", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.mark.parametrize(
    ("shown", "machine", "expected"),
    [
        ("│ 0.8151 │ …/x.csv", False, ""),
        ("12,000 evals · 7/s", False, ""),
        ("│ 0.82 │", False, "0.82"),
        ("│ 0.82 │", True, ""),
        ("…/x.csv 0.8151", True, "…/x.csv 0.8151"),
        ("0.82 y.csv", True, "0.82 y.csv"),
    ],
)
def test_output_is_compared(shown: str, machine: bool, expected: str) -> None:
    printed = "┃ 12,000 evals · 99/s ┃ 0.8150 /tmp/x.csv"
    assert missing(shown, printed, machine=machine) == expected
