"""What the documents say is true: their Python runs, their commands and configurations parse."""

import doctest
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest

from algorithms.moves.variation import SPACES
from framework import registry
from framework.cli.library import read_sections
from framework.cli.main import command_parser, main
from framework.experiment.config import RunConfig, load_config
from framework.experiment.grid_load import load_grid
from framework.libraries.config import BuildConfig
from tests.blocks import PAGES, ROOT, blocks, missing
from tests.command import run_program
from tests.reference import PAGE, reference
from tracking.sweep.config import load_plan

FACE = ROOT / "algorithms" / "facade"
LIBRARIES = sorted((ROOT / "configs").rglob("library*.yaml"))
CONFIGS = [path for path in sorted((ROOT / "configs").rglob("*.yaml")) if path not in LIBRARIES]
COMMAND = re.compile(r"`(paretolab [a-z][^`]*)`|^(paretolab [a-z][^#\n]*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")
WITH_THEIR_PAGES = {  # three seconds and more, or in need of what the page did before
    *(f"cascades.md-{number}" for number in range(4)),
    *("decisions.md-0", "decisions.md-1", "ensembling.md-0", "ensembling.md-1"),
    *("multistage.md-0", "pruning.md-0", "python.md-1"),
}


def load(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Check a file, one with a section sweep or experiment as such."""
    sections = {line.partition(":")[0] for line in path.read_text(encoding="utf-8").splitlines()}
    if "sweep" in sections:
        return load_plan(path, overrides).config
    if "experiment" in sections:
        return load_grid(path, overrides).base
    return load_config(path, overrides)


SNIPPETS = [
    pytest.param(found[at].text, shown, id=name)
    for page in PAGES
    for found in [list(blocks(page))]
    for number, at in enumerate(i for i, block in enumerate(found) if block.kind == "python")
    for shown in ["".join(b.text for b in found[at + 1 : at + 2] if b.kind == "output")]
    if (name := f"{page.name}-{number}") not in WITH_THEIR_PAGES
]


@pytest.mark.slow
@pytest.mark.parametrize(("code", "shown"), SNIPPETS)
def test_python_runs(code: str, shown: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    assert main(["init", "multistage", "--out", str(tmp_path / "loans")]) == 0
    done = run_program([sys.executable, "-c", code], cwd=tmp_path)
    assert done.returncode == 0, f"expected the snippet to run, found:\n{done.stderr}"
    assert not (lost := missing(shown, done.stdout)), f"not printed: {lost}\n{done.stdout}"


EXAMPLES = sorted(
    ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
    for base, folders in ((ROOT, ("framework", "algorithms", "tracking")), (FACE, ("paretolab",)))
    for folder in folders
    for path in (base / folder).rglob("*.py")
    if (base == FACE) == path.is_relative_to(FACE) and ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", EXAMPLES)
def test_examples_in_docstrings(module: str) -> None:
    failed, tried = doctest.testmod(import_module(module), optionflags=doctest.ELLIPSIS)
    assert tried > 0
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_parse(page: Path) -> None:
    for parts in COMMAND.findall(page.read_text(encoding="utf-8")):
        words = shlex.split("".join(parts).partition("|")[0].replace("\n", " "))[1:]
        if len(words) == 1 and words[0] not in {"list", "schema", "ui"}:
            words.append("DIR")  # a command mentioned by its name
        try:
            args = command_parser(words[:1]).parse_args(words)
        except SystemExit:
            pytest.fail(f"{page.name}: expected a command that parses, found {words}")
        config = getattr(args, "config", "FILE")
        if config.startswith("configs/"):
            load(ROOT / config, args.set)
        if getattr(args, "file", "FILE").startswith("configs/"):
            read_sections(ROOT / args.file, args.set, BuildConfig)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configurations_load(path: Path) -> None:
    config = load(path)
    assert config.tracking is not None
    assert config.tracking.experiment == config.name


@pytest.mark.parametrize("path", LIBRARIES, ids=lambda path: path.stem)
def test_library_configurations_load(path: Path) -> None:
    assert read_sections(path, [], BuildConfig)[0].models > 0


def test_docs_and_plug_ins_import_public_names_alone() -> None:
    plug_in = ROOT / "tests" / "outside" / "package"
    for page in [*PAGES, *plug_in.rglob("*.py")]:
        found = re.search(
            r"^\s*(from|import) (framework|algorithms|tracking)\b.*", page.read_text(), re.M
        )
        assert not found, f"{page.name}: {found and found[0]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), f"{page.name}: no {target}"


def test_pages_are_short() -> None:
    """Words, without the lines of tables: a budget is raised only with a reason in the commit."""
    words = {path: len(re.findall(r"\S*\w\S*", path.read_text(encoding="utf-8"))) for path in PAGES}
    assert sum(words.values()) <= 35_000, words
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split()) <= 2_000


def test_the_tables_of_keys_are_those_of_the_schema() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.endswith(reference()), "expected the tables of python -m tests.reference"


def test_every_key_has_a_meaning() -> None:
    rows = [line.split(" | ") for line in reference().splitlines()]
    mute = [row[0] for row in rows if len(row) > 2 and not row[2].strip()]
    assert not mute, f"expected a line 'key : text' in the docstring of their section: {mute}"


def matrix() -> str:
    """Return the table of searches and the spaces that their classes declare.

    A bracket: on the problems alone whose tables the search reads.
    """
    spaces = [space for space in SPACES if isinstance(space.words, str)]
    lines = ["| kind | " + " | ".join(space.words for space in spaces) + " |"]
    lines.append("| --- |" + " :-: |" * len(spaces))
    for kind in registry.names("algorithms"):
        search = registry.load("algorithms", kind)
        mark = "x" if search.reads is object else "(x)"
        cells = [mark if issubclass(space, search.spaces) else "" for space in spaces]
        lines.append(f"| `{kind}` | " + " | ".join(cells) + " |")
    return "\n".join(line.replace("|  |", "| |").replace("|  |", "| |") for line in lines)


def test_searches_and_their_spaces_are_what_the_classes_declare() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert matrix() in text, f"expected in configuration.md:\n{matrix()}"
