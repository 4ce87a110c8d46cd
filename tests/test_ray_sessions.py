"""What a Ray of our own leaves behind: nothing, not even after its owner was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from framework.parallel.session import session_folder


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    return tmp_path


def age(folder):
    """Let a folder be an hour old."""
    then = time.time() - 3600
    os.utime(folder, (then, then))


def test_a_folder_goes_with_its_session(base):
    with session_folder() as folder:
        assert folder.parent == base
        assert folder.stat().st_mode & 0o077 == 0
        (folder / "logs").mkdir()
        (folder / "logs" / "raylet.out").touch()
    assert list(base.iterdir()) == []


def test_what_a_killed_process_left_goes_and_what_lives_stays(base):
    code = (
        "import time\nfrom framework.parallel.session import session_folder\n"
        "with session_folder() as folder:\n    (folder / 'logs').mkdir()\n"
        "    print(folder, flush=True)\n    time.sleep(60)\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    folders = [os.path.basename(process.stdout.readline().strip()) for process in processes]
    young = base / "paretolab-ray-young"
    young.mkdir()
    (base / "ray").mkdir()
    for folder in folders:
        age(base / folder)
    age(base / "ray")
    os.kill(processes[0].pid, signal.SIGKILL)
    processes[0].wait()
    with session_folder() as mine:
        left = {path.name for path in base.iterdir()}
    assert left == {folders[1], young.name, "ray", mine.name}
    processes[1].kill()
    for process in processes:
        process.communicate()
