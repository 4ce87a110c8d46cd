"""Run the notebooks of ``docs/gallery`` and store their outputs.

    python scripts/gallery.py             # all of them
    python scripts/gallery.py cascade     # one

Needs the extra ``test``. The documentation shows the outputs; ``tests/scripts/test_gallery.py``
runs the cells again and compares what they print, except for cells with the tag ``machine``.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"


def executed(path: Path, folder: str | Path) -> nbformat.NotebookNode:
    """Return a notebook with new outputs; its cells run in a folder.

    They can call the command ``paretolab`` of this environment.
    """
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    notebook = nbformat.read(path, 4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    # the last bits of a fit, and so a figure, depend on the number of threads
    client.execute(env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    return notebook


def main() -> None:
    """Run the named notebooks, or all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="without .ipynb (default: all)")
    names = parser.parse_args().names or sorted(path.stem for path in GALLERY.glob("*.ipynb"))
    for name in names:
        with TemporaryDirectory() as folder:
            notebook = executed(GALLERY / f"{name}.ipynb", folder)
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)  # when it ran
        notebook.metadata["language_info"] = {"name": "python"}
        nbformat.write(notebook, GALLERY / f"{name}.ipynb")
        print(name)


if __name__ == "__main__":
    main()
