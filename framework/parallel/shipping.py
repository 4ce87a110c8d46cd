"""What travels to the nodes of a cluster: our packages, plug-ins, and what the user names.

A node needs our dependencies and no installation of ours: the packages go there with their
metadata, which hold the entry points by which problems and searches are found. Installed plug-ins
go the same way.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from framework.errors import InputError
from framework.machine import SAFE_PATH
from framework.machine_code import SHIPPED
from framework.parallel.config import ClusterConfig
from framework.security import is_cluster_trusted

_GROUPS = "paretolab."  # entry points of ours and of plug-ins
_OURS = "paretolab"
_IN_A_CLONE = ("framework", "algorithms", "tracking", "paretolab")
# a wheel has them all below one package
_PACKAGES = (_OURS,) if __name__.startswith(f"{_OURS}.") else _IN_A_CLONE
_METADATA = ("METADATA", "entry_points.txt")
_HANDED_ON = ("PARETOLAB_TRUST",)  # whose classes a process may import
_FILES = (".py", ".whl")


@contextmanager
def runtime_env(config: ClusterConfig, *, packages: bool) -> Iterator[dict[str, Any]]:
    """Yield Ray's runtime environment of the workers.

    Parameters
    ----------
    config : ClusterConfig
    packages : bool
        Whether our packages and plug-ins go along: to nodes that may lack them.

    Raises
    ------
    InputError
        The section brings code that the user did not trust, or names what is not there.
    """
    checked = user_env(config)
    if config.brings_code() and not is_cluster_trusted():
        raise InputError(
            f"cluster.{config.brings_code()[0]}: expected a configuration that runs nothing, found "
            "one that has code run on workers; look at its section cluster, then say "
            "--trust-cluster"
        )
    with TemporaryDirectory(prefix="paretolab-ship-") as room:
        shipped = _staged(Path(room)) if packages else []
        modules = [*map(str, shipped), *checked.pop("py_modules", [])]
        # workers on this machine inherit them, and start faster without an environment of their own
        inherited = _HANDED_ON if packages else ()
        handed = {name: os.environ[name] for name in inherited if name in os.environ}
        if packages:
            handed |= SAFE_PATH
            handed[SHIPPED] = " ".join([_digest(Path(room)), *(path.stem for path in shipped)])
        env_vars = {**handed, **checked.pop("env_vars", {})}
        yield {
            **checked,
            **({"py_modules": modules} if modules else {}),
            **({"env_vars": env_vars} if env_vars else {}),
        }


def user_env(config: ClusterConfig) -> dict[str, Any]:
    """Return what a section says in the words of Ray, checked here and by Ray.

    Raises
    ------
    InputError
        It names what is not there, or what Ray does not take.
    """
    for i, item in enumerate(config.py_modules):
        path = Path(item)
        if not ("://" in item or path.is_dir() or (path.is_file() and path.suffix in _FILES)):
            raise InputError(
                f"cluster.py_modules.{i}: expected a folder, a .py file, a wheel or an address, "
                f"found {item!r}, which is none"
            )
    folder = config.working_dir
    if folder is not None and "://" not in folder and not Path(folder).is_dir():
        raise InputError(f"cluster.working_dir: expected a folder, found {folder!r}")
    env = dict(config.runtime_env)
    for name, value in (
        ("py_modules", config.py_modules),
        ("pip", config.pip),
        ("env_vars", config.environment()),
        ("working_dir", folder),
    ):
        if value:
            env[name] = value
    if env:
        _check_with_ray(env)
    return env


def _check_with_ray(env: dict[str, Any]) -> None:
    from ray.runtime_env import RuntimeEnv

    keys = sorted(name for name in RuntimeEnv.known_fields if not name.startswith("_"))
    for name in sorted(set(env) - set(keys)):
        raise InputError(
            f"cluster.runtime_env: expected keys among {', '.join(keys)}; found {name!r}"
        )
    try:
        RuntimeEnv(**env)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"cluster: expected what Ray can set up, found: {reason}") from error


def _staged(room: Path) -> list[Path]:
    """Copy our packages, installed plug-ins and the metadata of both into a folder."""
    packages = [dist for dist in distributions() if _names(dist)]
    for name in dict.fromkeys(name for dist in packages for name in _names(dist)):
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            continue  # of a plug-in that is broken: naming it fails here, too
        origin = Path(spec.origin)
        if origin.name == "__init__.py":
            shutil.copytree(
                origin.parent, room / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
            )
        else:
            shutil.copy(origin, room / origin.name)
    for dist in packages:
        folder = room / f"{dist.name.replace('-', '_')}-{dist.version}.dist-info"
        folder.mkdir(exist_ok=True)
        for name in _METADATA:
            (folder / name).write_text(dist.read_text(name) or "", encoding="utf-8")
    return sorted(room.iterdir())


def _digest(folder: Path) -> str:
    """Return the digest of all files below a folder, with their names."""
    digest = sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _names(dist: Distribution) -> list[str]:
    """Return the packages of a distribution that registers something of ours."""
    if dist.name == _OURS:
        return list(_PACKAGES)
    entries = [entry for entry in dist.entry_points if entry.group.startswith(_GROUPS)]
    return [entry.module.split(".")[0] for entry in entries]
