"""``import paretolab``: light, complete, typed."""

import ast
import sys
from importlib import import_module
from pathlib import Path

import pytest

import paretolab
from tests.command import run_program

ROOT = Path(__file__).parents[2]
FACE = ROOT / "algorithms" / "facade" / "paretolab" / "__init__.py"
LIGHT = """
import sys, paretolab
heavy = {"numpy", "pandas", "sklearn", "pydantic", "ray", "framework", "algorithms"}
sys.exit(", ".join(sorted(heavy & set(sys.modules))) or 0)
"""


def typed_names() -> dict[str, str]:
    """Return what type checkers read: each public name with ``module:attribute``."""
    tree = ast.parse(FACE.read_text(encoding="utf-8"))
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If)
        and "not" not in ast.unparse(node)
        and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    modules: dict[str, str] = {}
    names: dict[str, str] = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                target = names if alias.name == alias.asname else modules
                separator = ":" if target is names else "."
                target[alias.asname or alias.name] = f"{node.module}{separator}{alias.name}"
        elif isinstance(node, ast.Assign):
            (target_name,) = node.targets
            module, _, attribute = ast.unparse(node.value).partition(".")
            names[ast.unparse(target_name)] = f"{modules[module]}:{attribute}"
    return names


def test_types_and_names_agree() -> None:
    assert typed_names() == paretolab._HOMES


def test_each_name_is_there() -> None:
    for name, home in paretolab._HOMES.items():
        value = getattr(paretolab, name)
        if name != "__version__":
            module, _, attribute = home.partition(":")
            assert value is getattr(import_module(module), attribute)
        assert name in dir(paretolab)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'serch'"):
        getattr(paretolab, "serch")  # noqa: B009 (mypy knows that it is not there)


def test_import_is_light(tmp_path: Path) -> None:
    done = run_program([sys.executable, "-c", LIGHT], cwd=tmp_path)
    assert done.returncode == 0, f"import paretolab imports {done.stderr.strip()}"
