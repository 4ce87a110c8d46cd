"""The keys of configurations as tables, from their JSON schema.

``python -m tests.reference`` writes them below the head of ``docs/configuration.md``.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from framework.cli.schema import strict_schema

_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
_SENTENCE = re.compile(r"(?<! al)\. (?=[A-Z`'])")
_FILES = ("library", "experiment", "sweep")  # sections that make another file of a run's
_LONGEST = 60  # characters of a default that is shown
_WORDS = 12  # of a meaning beyond which its first clause is enough
_HEAD = ("key | value | meaning", "--- | --- | ---")

Schema = Mapping[str, Any]


PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"


def reference() -> str:
    """Return a table for each section, in Markdown."""
    whole, definitions = strict_schema()
    tables = _Tables(definitions)
    run = whole["properties"]
    tables.add("run", {**whole, "properties": {k: run[k] for k in run if k not in _FILES}})
    for problem in _kinds(run["problem"]):
        tables.add(f"problem {_kind(problem)}", problem)
    tables.add_merged("algorithm", _kinds(run["algorithm"]))
    for name in _FILES:
        tables.value(run[name], name, "run")
    return "\n".join(tables.texts)


def _kinds(node: Schema) -> list[Schema]:
    """Return the sections that a key with kinds may have."""
    return [case["then"] for case in node["anyOf"][1]["allOf"]]


def _kind(section: Schema) -> str:
    return str(section["properties"]["kind"]["const"])


class _Tables:
    """The tables so far; that of a section comes after the one that first names it."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._titles: dict[str, str] = {}  # of sections, by what they are
        self._rows: dict[str, list[tuple[str, ...]]] = {}  # by title
        self.texts: list[str] = []

    def add(self, title: str, section: Schema) -> None:
        """Add the table of a section; one with the keys of an earlier one has what differs."""
        place, rows, more = len(self.texts), self.rows(section, title), [""]
        for like, others in self._rows.items():
            if [row[0] for row in others] == [row[0] for row in rows] and set(others) & set(rows):
                more = ["", f"As [{like}](#{_anchor(like)}), but for:", ""]
                self._rows[title], rows = rows, [row for row in rows if row not in others]
                break
        self._rows.setdefault(title, rows)
        self.texts.insert(place, "\n".join([f"### {title}", *more, *_HEAD, *_lines(rows), ""]))

    def add_merged(self, title: str, sections: list[Schema]) -> None:
        """Add one table of several kinds, whose equal rows are one."""
        kinds: dict[tuple[str, ...], list[str]] = {}
        for section in sections:
            for row in self.rows(section, title):
                kinds.setdefault(row, []).append(f"`{_kind(section)}`")
        rows = sorted((*row, ", ".join(names)) for row, names in kinds.items())
        heads = [f"{head} | {more}" for head, more in zip(_HEAD, ("kinds", "---"), strict=True)]
        self.texts.append("\n".join([f"### {title}", "", *heads, *_lines(rows), ""]))

    def rows(self, section: Schema, title: str) -> list[tuple[str, ...]]:
        """Return for each key what it may have with its default, and what it means."""
        rows: list[tuple[str, ...]] = []
        for key, node in section["properties"].items():
            if "const" in node:  # the kind, which the title names
                continue
            value, default = self.value(node, key, title), _plain(node.get("default"))
            if key in section.get("required", ()):
                value += "; needed"
            elif default:
                value += f"; `{default}`"
            meaning = _SENTENCE.split(node.get("description", ""))[0].rstrip(".")
            meaning = meaning.split("; ")[0] if meaning.count(" ") >= _WORDS else meaning
            rows.append((f"`{key}`", value, meaning))
        return rows

    def value(self, node: Schema, key: str, title: str) -> str:
        """Return what a key may have."""
        if "$ref" in node:
            return self._link(self._definitions[node["$ref"].rpartition("/")[2]], key, title)
        if "anyOf" in node and "allOf" in node["anyOf"][-1]:
            names = [_kind(section) for section in _kinds(node)]
            links = [f"[{name}](#problem-{name})" for name in names]
            return " ".join(links) if key == "problem" else "[section](#algorithm)"
        for several in ("anyOf", "oneOf"):
            if several in node:
                texts = [self.value(one, key, title) for one in node[several]]
                return " or ".join(text for text in dict.fromkeys(texts) if text)
        if "enum" in node:
            return ", ".join(json.dumps(value).strip('"').join("``") for value in node["enum"])
        if "const" in node:
            return f"`{node['const']}`"
        kind = str(node.get("type"))
        if kind == "array":
            inner = self.value(node.get("items", {}), key, title) or "values"
            return "texts" if inner == "text" else f"list of {inner}"
        if kind == "object":
            within = node.get("additionalProperties")
            text = self.value(within, key, title) if isinstance(within, dict) else ""
            return f"by name {text}" if text else "mapping"
        if kind in ("integer", "number"):
            bounds = [
                f" {word} {node[bound]:g}" for bound, word in _BOUNDS.items() if bound in node
            ]
            return kind + "".join(bounds)
        return {"string": "text", "boolean": "true/false"}.get(kind, "")

    def _link(self, section: Schema, key: str, title: str) -> str:
        """Return a link to the table of a section, which is made where there is none."""
        if "properties" not in section:
            return self.value(section, key, title)
        content = json.dumps([section["properties"], section.get("required")], sort_keys=True)
        if content not in self._titles:
            name = f"{key} of {title.split()[-1]}" if key in self._rows else key
            self._titles[content] = name
            self.add(name, section)
        name = self._titles[content]
        return f"[{name}](#{_anchor(name)})"


def _lines(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table; keys of which the same is said have one together."""
    together: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for row in rows:
        together.setdefault(row[2:], []).append(row)
    cells = []
    for said, alike in together.items():
        values = " / ".join(dict.fromkeys(row[1] for row in alike))
        cells.append((", ".join(dict.fromkeys(row[0] for row in alike)), values, *said))
    return [" | ".join(cell.replace("|", "\\|") for cell in line) for line in cells]


def _anchor(title: str) -> str:
    return title.replace(" ", "-")


def _plain(default: Any) -> str:
    """Return a short default in one line of YAML; nothing where there is none."""
    if default in (None, [], {}, ""):
        return ""
    text = yaml.safe_dump(default, default_flow_style=True, width=10**6).split("\n")[0]
    return text if len(text) <= _LONGEST else ""


if __name__ == "__main__":
    head = PAGE.read_text(encoding="utf-8").partition("### run\n")[0]
    PAGE.write_text(head + reference(), encoding="utf-8")
