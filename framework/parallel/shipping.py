"""The code that is sent to the nodes of a cluster: our packages, plug-ins, and the user's modules.

A node needs the dependencies of paretolab but not paretolab itself: its packages are sent along
with their metadata, whose entry points register problems and searches. Installed plug-ins are sent
in the same way.
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

_GROUPS = "paretolab."  # how the groups of entry points begin, ours and those of plug-ins
_OURS = "paretolab"
_IN_A_CLONE = ("framework", "algorithms", "tracking", "paretolab")
# in a wheel, this one package contains all others
_PACKAGES = (_OURS,) if __name__.startswith(f"{_OURS}.") else _IN_A_CLONE
_METADATA = ("METADATA", "entry_points.txt")
_HANDED_ON = ("PARETOLAB_TRUST",)  # the variable that lists the classes that the user trusts
_FILES = (".py", ".whl")


@contextmanager
def runtime_env(config: ClusterConfig, *, packages: bool) -> Iterator[dict[str, Any]]:
    """Yield Ray's runtime environment of the workers.

    Parameters
    ----------
    config : ClusterConfig
    packages : bool
        Whether our packages and plug-ins are sent, for nodes that may lack them.

    Raises
    ------
    InputError
        The section brings code that the user did not trust, or names something that does not exist.
    """
    checked = user_env(config)
    if config.brings_code() and not is_cluster_trusted():
        raise InputError(
            f"cluster.{config.brings_code()[0]}: expected a configuration that runs nothing, found "
            "one that has code run on workers; look at its section cluster, then say "
            "--trust-cluster"
        )
    with TemporaryDirectory(prefix="paretolab-ship-") as folder:
        shipped = _staged(Path(folder)) if packages else []
        modules = [*map(str, shipped), *checked.pop("py_modules", [])]
        env_vars = {}
        if packages:  # workers on this machine inherit these, and start faster without the setup
            env_vars = {name: os.environ[name] for name in _HANDED_ON if name in os.environ}
            env_vars |= SAFE_PATH
            env_vars[SHIPPED] = " ".join([_digest(Path(folder)), *(path.stem for path in shipped)])
        env_vars |= checked.pop("env_vars", {})
        yield {
            **checked,
            **({"py_modules": modules} if modules else {}),
            **({"env_vars": env_vars} if env_vars else {}),
        }


def user_env(config: ClusterConfig) -> dict[str, Any]:
    """Return Ray's runtime environment for a section, checked here and by Ray.

    Raises
    ------
    InputError
        It names something that does not exist or that Ray does not accept.
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


def _staged(folder: Path) -> list[Path]:
    """Copy our packages, installed plug-ins and the metadata of both into a folder."""
    packages = [dist for dist in distributions() if _names(dist)]
    for name in dict.fromkeys(name for dist in packages for name in _names(dist)):
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            continue  # a broken plug-in: whoever uses it is told so on this machine, too
        origin = Path(spec.origin)
        if origin.name == "__init__.py":
            shutil.copytree(
                origin.parent, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
            )
        else:
            shutil.copy(origin, folder / origin.name)
    for dist in packages:
        metadata = folder / f"{dist.name.replace('-', '_')}-{dist.version}.dist-info"
        metadata.mkdir(exist_ok=True)
        for name in _METADATA:
            (metadata / name).write_text(dist.read_text(name) or "", encoding="utf-8")
    return sorted(folder.iterdir())


def _digest(folder: Path) -> str:
    """Return the digest of all files below a folder, with their names."""
    digest = sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _names(dist: Distribution) -> list[str]:
    """Return the packages of a distribution that registers something in our groups, else none."""
    if dist.name == _OURS:
        return list(_PACKAGES)
    entries = [entry for entry in dist.entry_points if entry.group.startswith(_GROUPS)]
    return [entry.module.split(".")[0] for entry in entries]
