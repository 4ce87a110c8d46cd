"""Who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = {"framework", "algorithms", "tracking", "scripts", "tests", "paretolab", "paretolab_command"}
FACE = "framework/facade"  # the public face sees all layers, and no layer sees it
ALLOWED = {
    FACE: {"framework", "algorithms", "tracking", "paretolab"},
    "framework": {"framework"},
    "algorithms": {"framework", "algorithms"},
    "tracking": {"framework", "tracking"},
}
FILES = sorted({path for layer in ALLOWED for path in (ROOT / layer).rglob("*.py")})


def imported(path, *, top_level_only=False):
    """Return the modules that a file imports, each with its line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for node in _outside_functions(tree) if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found.append((node.module, node.lineno))
    return found


def _outside_functions(node):
    """Walk what runs when the module is imported."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _outside_functions(child)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_layer_imports_only_what_lies_below(path):
    place = path.relative_to(ROOT)
    layer = FACE if place.is_relative_to(FACE) else place.parts[0]
    for module, line in imported(path):
        package = module.split(".")[0]
        assert package not in OURS - ALLOWED[layer], f"{path}:{line}: {layer} imports {module}"


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if "tracking" not in path.relative_to(ROOT).parts],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_heavy_libraries_are_imported_where_they_are_used(path):
    for module, line in imported(path, top_level_only=True):
        assert module.split(".")[0] not in {"ray", "mlflow", "matplotlib", "plotly"}, (
            f"{path}:{line}: {module} is imported at the top; import it in the function"
        )


LIGHT = """
import sys
import framework.run.evaluator, framework.problems.functions
heavy = {"ray", "mlflow", "matplotlib", "plotly", "pandas", "sklearn", "optuna"} & set(sys.modules)
sys.exit(", ".join(sorted(heavy)) or 0)
"""


def test_what_an_actor_imports_is_light():
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"an actor imports {done.stderr.strip()}"
