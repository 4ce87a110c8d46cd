"""Data sets, splits, feature costs and the encoding of features.

Each name is loaded when it is first used, so that a worker loads only what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from framework.data.costs import CostsConfig, exact_costs, feature_costs
    from framework.data.encoding import Encoder
    from framework.data.sources import known_names
    from framework.data.splits import Split, SplitConfig, split_records
    from framework.data.tables import (
        DatasetConfig,
        Table,
        ValueTable,
        load_table,
        load_values,
        memory_to_load,
    )

_HOMES = {
    "CostsConfig": "costs",
    "DatasetConfig": "tables",
    "Encoder": "encoding",
    "Split": "splits",
    "SplitConfig": "splits",
    "Table": "tables",
    "ValueTable": "tables",
    "exact_costs": "costs",
    "feature_costs": "costs",
    "known_names": "sources",
    "load_table": "tables",
    "load_values": "tables",
    "memory_to_load": "tables",
    "split_records": "splits",
}

__all__ = [
    "CostsConfig",
    "DatasetConfig",
    "Encoder",
    "Split",
    "SplitConfig",
    "Table",
    "ValueTable",
    "exact_costs",
    "feature_costs",
    "known_names",
    "load_table",
    "load_values",
    "memory_to_load",
    "split_records",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
