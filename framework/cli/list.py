"""``paretolab list``."""

from __future__ import annotations

import argparse

from framework import registry
from framework.cli.tables import console, show_steps


class List:
    """Show what is registered."""

    help = "list algorithms, problems, functions, datasets or metrics"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        kinds = ["algorithms", "problems", "functions", "datasets", "metrics"]
        parser.add_argument("what", nargs="?", choices=kinds, help="(default: all of them)")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        groups = {
            "algorithms": _algorithms,
            "problems": lambda: _summaries("problems"),
            "functions": _functions,
            "datasets": _datasets,
            "metrics": _metrics,
        }
        out = console()
        for name, lines in groups.items():
            if args.what in (None, name):
                if args.what is None:
                    out.print(f"\n{name}", style="bold")
                show_steps(out, lines())
        return 0


def _summaries(group: registry.Group) -> list[tuple[str, str]]:
    """Return each class of a group with the first sentence of its docstring."""
    lines = []
    for name in registry.names(group):
        doc = (registry.load(group, name).__doc__ or "").strip()
        lines.append((name, doc.split("\n\n")[0].replace("\n    ", " ")))
    return lines


def _algorithms() -> list[tuple[str, str]]:
    """Return each algorithm with the first sentence of its docstring and what it searches."""
    lines = []
    for name, text in _summaries("algorithms"):
        spaces = registry.load("algorithms", name).spaces
        lines.append((name, f"{text} Searches {' and '.join(space.words for space in spaces)}."))
    return lines


def _functions() -> list[tuple[str, str]]:
    from framework.problems.functions import registered

    return [(name, f"{registered(name).text}.") for name in registry.names("functions")]


def _datasets() -> list[tuple[str, str]]:
    from framework.data.datasets import known_names

    return [(name, f"dataset: {{name: {name}}}") for name in known_names()]


def _metrics() -> list[tuple[str, str]]:
    lines = []
    for kind in registry.names("problems"):
        for metric in registry.load("problems", kind).known_metrics:
            lines.append((f"{kind}.{metric.name}", f"{metric.text} ({metric.sense})"))
    return lines
