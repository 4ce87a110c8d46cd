"""``paretolab schema``: prints the JSON schema of configurations, for editors."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from framework import registry
from framework.cli.results import Result
from framework.experiment.config import RunConfig

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLACE = "#/$defs/{model}"
_NO_RUN = ("experiment", "sweep", "library")  # with one of these, keys of a run may be missing


class Schema:
    """Print the JSON schema of configurations, with all problems and algorithms installed."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        pass

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        json.dump(schema(), sys.stdout, indent=1)
        sys.stdout.write("\n")
        return Result()


def strict_schema() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of a file with all its sections, and the definitions that it refers to."""
    from framework.experiment.grid import GridConfig
    from framework.libraries.config import BuildConfig

    sections: dict[str, type[BaseModel]] = {"experiment": GridConfig, "library": BuildConfig}
    for name in registry.names("commands"):
        sections |= getattr(registry.load("commands", name), "sections", dict)()
    models: list[type[BaseModel]] = [RunConfig, *dict.fromkeys(sections.values())]
    references, shared = models_json_schema(
        [(model, "validation") for model in models], ref_template=_PLACE
    )
    definitions = shared["$defs"]
    whole = definitions.pop(references[RunConfig, "validation"]["$ref"].rpartition("/")[2])
    whole["properties"] |= {
        name: references[model, "validation"] for name, model in sections.items()
    }
    return whole, definitions


def schema() -> dict[str, Any]:
    """Return the JSON schema of runs, experiments, sweeps and libraries.

    It has every key with its type, default, bounds and meaning, and for each ``kind`` the keys of
    that kind. It finds fewer mistakes than ``paretolab check``: neither missing keys, since a case
    of an experiment may set them, nor combinations of keys that are not allowed.
    """
    whole, definitions = strict_schema()
    return {
        **_eased(whole),
        "$schema": _DIALECT,
        "title": "Configuration of paretolab",
        "anyOf": [
            {"required": whole["required"]},
            *({"required": [name]} for name in _NO_RUN),
        ],
        "$defs": _eased(definitions),
    }


def _eased(node: Any) -> Any:
    """Return a schema that requires no key, and accepts a single text for a list of texts."""
    if isinstance(node, list):
        return [_eased(item) for item in node]
    if not isinstance(node, dict):
        return node
    eased = {
        key: _eased(value)
        for key, value in node.items()
        if key != "required" or not isinstance(value, list)
    }
    if node.get("type") == "array" and node.get("items") == {"type": "string"}:
        eased["type"] = ["array", "string"]
    return eased
