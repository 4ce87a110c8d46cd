"""A watched process that opens what was received, and says what it did beyond its folders."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.trust.conftest import CONFIG

ROOT = Path(__file__).parents[2]
WATCHING = Path(__file__).with_name("watching")
RUN = yaml.safe_load(CONFIG)
SHORT = ["--quiet", "--no-plots", "--set", "budget.seconds=1"]
PATIENCE = 60  # seconds for one command
TABLE = "a,b,target\n" + "".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(60))
EVIL = "import os, sys\nopen('forged', 'w').close()\nos.system('touch forged')\n"


def environment_of(base: Path, may: Sequence[str], **more: str) -> dict[str, str]:
    """Return the variables of a watched command, whose folders, also those it may use, are here."""
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW", "PARETOLAB"))},
        "HOME": str(base / "home"),
        "XDG_CONFIG_HOME": str(base / "config"),
        "XDG_CACHE_HOME": str(base / "cache"),
        "MPLCONFIGDIR": str(base / "cache"),
        "TMPDIR": str(base / "tmp"),
        "MLFLOW_TRACKING_TOKEN": "t0ken",
        "PYTHONPATH": str(WATCHING),
        "WATCH_FILE": str(base / "effects"),
        "WATCH_MAY": ":".join(str(base / name) for name in (*may, "config", "cache", "tmp")),
        **more,
    }


class Said(NamedTuple):
    """What a command did: exit code, what it printed, and its effects beyond its folders."""

    code: int
    out: str
    err: str
    effects: list[list[str]]


class Watched:
    """A watched process with a home, a working folder and a folder for what is received."""

    def __init__(self, base: Path) -> None:
        self.base, self.count = base, 0
        places = ("home/.ssh", "work", "received", "config", "cache", "tmp", "elsewhere")
        for name in (*places, "packages"):
            (base / name).mkdir(parents=True)
        (base / "packages" / "evil.py").write_text(EVIL)  # it could be imported
        (base / "effects").touch()
        (base / "home" / "secret.csv").write_text(TABLE)
        (base / "home" / ".ssh" / "id_rsa").write_text("a key\n")
        for name in ("numba", "sklearn", "pandas", "evil", "optuna", "mlflow", "sitecustomize"):
            for folder in ("work", "received"):
                (base / folder / f"{name}.py").write_text(EVIL)
        self.environment = environment_of(
            base,
            ("work", "received"),
            RAY_TMPDIR="/tmp",  # names of its sockets are short
            A_SECRET="s3cret",
            PYTHONPATH=f"{WATCHING}:{base / 'packages'}",
            WATCH_SENT=f"{base / 'received'}:{base / 'work'}:{base / 'packages'}",
            WATCH_SECRET=str(base / "home"),
        )
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(ROOT / "tests" / "trust" / "watched.py")],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def folder(self) -> Path:
        """Return a new folder for what is received."""
        self.count += 1
        place = self.base / "received" / str(self.count)
        place.mkdir()
        return place

    def call(
        self,
        *arguments: object,
        folder: Path | None = None,
        without: Sequence[str] = (),
        pages: bool = False,
    ) -> Said:
        """Run a command in the process; it ends in time, in a known code, without a traceback.

        ``without`` names checks that are taken out meanwhile; ``pages`` says whether those of runs
        are written.
        """
        asked = {
            "arguments": list(map(str, arguments)),
            "folder": str(folder or self.work),
            "without": list(without),
            "pages": pages,
        }
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the process ended at {arguments}"
        said = Said(**json.loads(answer))
        assert said.code in (0, 2, 3), f"{arguments}: {said}"
        return said

    def refuse(self, sentence: str, *arguments: object, **more: Any) -> None:
        """Run a command that does nothing outside, and ends in a sentence."""
        said = self.call(*arguments, **more)
        check(said, arguments)
        assert (said.code, sentence in said.err) == (2, True), said

    @property
    def work(self) -> Path:
        return self.base / "work"

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)


def check(said: Said, arguments: object) -> None:
    """Fail where a command did what nobody granted, or wrote an escape sequence."""
    assert not said.effects, f"{arguments}: {said}"
    assert "\x1b" not in said.out + said.err, f"{arguments}: {said}"
    assert said.code != 2 or "paretolab: " in said.err, f"{arguments}: {said}"
