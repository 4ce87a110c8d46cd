"""Repeats of a trial on other splits of its records."""

from __future__ import annotations

from framework.errors import InputError
from framework.experiment.config import RunConfig, flatten, put


def split_seed(config: RunConfig, where: str) -> str:
    """Return the key of the seed that a problem splits its records with.

    Raises
    ------
    InputError
        There is none.
    """
    flat = flatten({"problem": config.problem})
    keys = [key for key, v in flat.items() if key.endswith("split.seed") and isinstance(v, int)]
    if len(keys) != 1:
        raise InputError(
            f"{where}: expected a problem that splits its records by a key split.seed, found "
            f"{', '.join(keys) or 'none'}"
        )
    return keys[0]


def resplit(config: RunConfig, repeat: int) -> RunConfig:
    """Return the configuration of a repeat on a split of its own; the first has the file's."""
    key = split_seed(config, "sweep.resplit")
    raw = config.model_dump(mode="json")
    put(raw, key, int(flatten(raw)[key]) + repeat)
    return config.model_copy(update={"problem": raw["problem"]})
