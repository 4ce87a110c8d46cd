"""Code and documentation use the words of the glossary, not home-made ones."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMES = (  # as names in code, whole or as a piece of one between underscores
    "befell", "beware", "crew", "gate_of", "generation_rows", "heed", "heeded", "hung", "long_work",
    "lookahead", "observer", "observers", "run_ahead", "stillborn", "tally", "unheeded", "vouch",
    "vouched", "watcher",
)  # fmt: skip
PHRASES = (
    r"rows (that are )?(out|told)\b",
    r"\b(rows?|lines?|figures?|columns?|files?) an? "
    r"(run|mistake|solution|record|error|case|cell|model|candidate|metric|stage|class)\b",
    r"\b(asked and|asked or) told\b",
    r"\bdares? to answer\b|\b(chosen|recommended|evaluated|best) designs?\b",
)
HISTORIES = {"anew", "found", "given", "kept", "known", "own", "told"}  # of a value, not what it is
FOLDERS = ("algorithms", "docs", "framework", "scripts", "tests", "tracking")
FILES = [
    path
    for path in (*ROOT.glob("*.md"), *(p for name in FOLDERS for p in (ROOT / name).rglob("*.*")))
    if path.suffix in (".md", ".py") and path.name not in ("CHANGELOG.md", "test_words.py")
]


def test_no_home_made_words() -> None:
    word = re.compile(rf"(?<![A-Za-z])({'|'.join(NAMES)})(?![A-Za-z])", re.IGNORECASE)
    found = []
    for path in FILES:
        place, text = path.relative_to(ROOT), path.read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), start=1):
            found += [f"{place}:{number}: {match[0]}" for match in word.finditer(line)]
        flat = " ".join(text.split())
        for phrase in PHRASES:
            found += [f"{place}: {match[0]}" for match in re.finditer(phrase, flat)]
    assert not found, "\n".join(found)


def test_variables_say_what_they_are() -> None:
    """Arguments and variables are named for what they hold, not for where it came from."""
    names = []
    for room in ("algorithms", "framework", "scripts", "tracking"):
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.arg):
                    name = node.arg
                elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    name = node.id
                else:
                    continue
                if name != "known_metrics" and HISTORIES & set(name.split("_")):
                    names.append(f"{path.relative_to(ROOT)}:{node.lineno}: {name}")
    assert not names, "\n".join(names)
