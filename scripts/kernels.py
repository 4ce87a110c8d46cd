"""Compiles the kernels of a first search, so that no user has to wait for that.

The machine code is written to the folder in which :mod:`framework.machine_code` looks for it, with
a manifest of digests. The folder is that of the package that this Python imports, or in a wheel::

    python scripts/kernels.py
    python scripts/kernels.py --wheel dist/paretolab-0.3.0-py3-none-any.whl

The code is valid for this system, this version of Python and of Numba, and a processor like this
one or, if this one has AVX2 and FMA, any other with these. Elsewhere it is ignored, and kernels are
compiled when they are called.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from one_package import with_files

SEARCHES = ("quickstart",)
# as many generations as call every kernel that the whole search calls
FEW = ["--set", "budget.evaluations=2000", "--workers", "serial", "--no-mlflow", "--no-plots"]
RUN = "from {package}framework.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"
KEEP = """
import json, shutil, sys
from pathlib import Path
from {package}framework.machine_code import FOLDER, MANIFEST, digests
shutil.rmtree(FOLDER, ignore_errors=True)
shutil.copytree(sys.argv[1], FOLDER)
listed = digests(FOLDER)
(FOLDER / MANIFEST).write_text(json.dumps(listed, indent=1) + "\\n", encoding="utf-8")
print(f"{{len(listed)}} files of machine code in {{FOLDER}}")
"""


def fill(package: str, below: Path | None = None) -> None:
    """Compile in other processes, and write the machine code into the package.

    Parameters
    ----------
    package : str
        ``paretolab.`` for an installed wheel, empty for a clone.
    below : Path, optional
        The folder from which to import the package, if it is not installed.
    """
    with TemporaryDirectory(prefix="paretolab-kernels-") as name:
        room = Path(name)
        places = {"NUMBA_CACHE_DIR": str(room / "code"), "PARETOLAB_CACHE": "off"}
        environment = os.environ | places | ({"PYTHONPATH": str(below)} if below else {})
        for search in SEARCHES:
            words = ["run", f"configs/{search}.yaml", "--out", str(room / search), *FEW, "--quiet"]
            _python(RUN.format(package=package), words, environment, room)
        _python(KEEP.format(package=package), [str(room / "code")], environment, None)


def _python(code: str, words: list[str], environment: dict[str, str], room: Path | None) -> None:
    shown = None if room is None else subprocess.DEVNULL
    command = [sys.executable, "-P", "-c", code, *words]
    subprocess.run(command, cwd=room, env=environment, stdout=shown, check=True)


def into_wheel(wheel: Path) -> None:
    """Add the machine code of a wheel's kernels to the wheel."""
    with TemporaryDirectory(prefix="paretolab-kernels-") as name:
        room = Path(name)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(room)
        fill("paretolab.", room)
        code = room / "paretolab" / "framework" / "compiled"
        paths = sorted(path for path in code.rglob("*") if path.is_file())
        with_files(wheel, {path.relative_to(room).as_posix(): path.read_bytes() for path in paths})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="a wheel that is to bring the machine code")
    arguments = parser.parse_args()
    if arguments.wheel is not None:
        into_wheel(arguments.wheel.resolve())
        return
    clone = subprocess.run(
        [sys.executable, "-P", "-c", "import framework.machine_code"],
        capture_output=True,
        check=False,
    )
    fill("paretolab." if clone.returncode else "")


if __name__ == "__main__":
    main()
