"""How work runs on Ray: the section ``cluster`` of a configuration, and when Ray is used."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationInfo, field_validator, model_validator

from framework.effects import note
from framework.errors import InputError
from framework.extras import installed
from framework.settings import Section

RAY_PAYS_SECONDS = 20.0
"""Serial work from which Ray is started: its start and that of its workers take 3 to 17 s."""

OR_SERIAL = "or run with --workers serial"  # ends the sentences that say what to do
_URI = re.compile(r"[a-z][a-z0-9+.-]+://")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_OWN = ("py_modules", "pip", "env_vars", "working_dir")


class Resources(Section):
    """What each worker takes of its node, in Ray's units.

    num_cpus, num_gpus : below 1, several workers share one.
    memory : bytes.
    custom : further resources that nodes were started with, by name.
    """

    num_cpus: float = Field(default=1.0, ge=0)
    num_gpus: float = Field(default=0.0, ge=0)
    memory: int = Field(default=0, ge=0)
    custom: dict[str, float] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _something(self) -> Resources:
        if any(amount <= 0 for amount in self.custom.values()):
            raise ValueError(f"expected amounts above 0 of custom, found {self.custom}")
        if not self.shape():
            raise ValueError("expected workers that take something, found num_cpus 0 alone")
        return self

    def options(self) -> dict[str, Any]:
        """Return the options of a Ray actor."""
        options: dict[str, Any] = {
            "num_gpus": self.num_gpus,
            "memory": self.memory,
            "resources": self.custom,
        }
        return {"num_cpus": self.num_cpus} | {key: some for key, some in options.items() if some}

    def shape(self) -> dict[str, float]:
        """Return the amounts above 0 by the names under which Ray lists a node's resources."""
        named = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": self.memory, **self.custom}
        return {name: float(amount) for name, amount in named.items() if amount}


class ClusterConfig(Section):
    """How workers run on Ray; nothing here changes a front.

    resources : what each worker takes.
    row_timeout : seconds per candidate after which its worker is ended; a candidate that three
        workers took too long for fails. None sets no limit.
    copies : whether an idle worker repeats a task that another is late with.
    py_modules : folders of packages, modules (``.py``) or wheels that workers can import.
    pip : packages that are installed for the workers.
    env_vars : variables of their environment; ``${NAME}`` stands for one of this process.
    working_dir : folder that is copied to the nodes, where workers run in it.
    runtime_env : further keys of Ray's runtime environment.
    """

    resources: Resources = Resources()
    row_timeout: float | None = Field(default=None, gt=0)
    copies: bool = True
    py_modules: list[str] = Field(default_factory=list)
    pip: list[str] = Field(default_factory=list)
    env_vars: dict[str, str] = Field(default_factory=dict)
    working_dir: str | None = None
    runtime_env: dict[str, Any] = Field(default_factory=dict)

    @field_validator("py_modules")
    @classmethod
    def _modules(cls, paths: list[str], info: ValidationInfo) -> list[str]:
        return [placed(item, info.context) for item in paths]

    @field_validator("working_dir")
    @classmethod
    def _folder(cls, path: str | None, info: ValidationInfo) -> str | None:
        return None if path is None else placed(path, info.context)

    @field_validator("runtime_env")
    @classmethod
    def _no_rival(cls, variables: dict[str, Any]) -> dict[str, Any]:
        for name in sorted(set(variables) & set(_OWN)):
            raise ValueError(f"expected {name} beside runtime_env, found it inside")
        return variables

    @model_validator(mode="after")
    def _noted(self) -> ClusterConfig:
        brings = self.brings_code()
        if brings:
            section = {name: getattr(self, name) for name in brings}
            said = json.dumps(section, sort_keys=True, default=str)
            note("cluster", said, "cluster", ", ".join(brings))
        return self

    def brings_code(self) -> list[str]:
        """Return the keys that are set and by which code may run on workers."""
        return [name for name in (*_OWN, "runtime_env") if getattr(self, name)]

    def environment(self) -> dict[str, str]:
        """Return the variables for the workers.

        Raises
        ------
        InputError
            A ``${NAME}`` names a variable that this process does not have.
        """
        return {name: _filled(name, text) for name, text in self.env_vars.items()}


def placed(item: str, context: Mapping[str, Any] | None = None) -> str:
    """Return an absolute path, taken relative to ``context['base']``; addresses stay unchanged."""
    if _URI.match(item):
        return item
    return str(Path((context or {}).get("base", "."), os.path.expanduser(item)).resolve())


def _filled(name: str, text: str) -> str:
    for variable in _VARIABLE.findall(text):
        if variable not in os.environ:
            raise InputError(
                f"cluster.env_vars.{name}: expected the variable {variable} in the environment of "
                "this process, found none; set it"
            )
    return _VARIABLE.sub(lambda match: os.environ[match[1]], text)


def uses_ray(workers: str | int, address: str | None) -> bool:
    """Return whether Ray is requested explicitly."""
    return address is not None or workers not in ("serial", "auto")


def ray_pays(workers: str | int, seconds_left: float) -> bool:
    """Return whether ``auto`` uses Ray for work that would take this process ``seconds_left``."""
    enough = seconds_left >= RAY_PAYS_SECONDS and (os.cpu_count() or 1) > 1
    return workers == "auto" and enough and installed("ray")


class WorkerChoice(NamedTuple):
    """Workers as a configuration names them, and the Ray cluster to join, if any."""

    workers: str | int = "auto"
    address: str | None = None


_CHOSEN: ContextVar[WorkerChoice] = ContextVar("workers", default=WorkerChoice())  # noqa: B039


def chosen_workers() -> WorkerChoice:
    """Return the workers that build what a problem needs before it exists, such as a library."""
    return _CHOSEN.get()


@contextmanager
def using_workers(workers: str | int, address: str | None = None) -> Iterator[None]:
    """Set what :func:`chosen_workers` returns within the block."""
    token = _CHOSEN.set(WorkerChoice(workers, address))
    try:
        yield
    finally:
        _CHOSEN.reset(token)
