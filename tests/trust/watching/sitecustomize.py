"""Notes what a process does to its surroundings, by Python's audit hooks.

Python imports it at its start where this folder is on ``PYTHONPATH``; so every process that a
command starts is watched as well. What happens beyond the folders named in ``WATCH_MAY`` is one
line of JSON, ``[event, what]``, in the file ``WATCH_FILE``.
"""

import json
import os
import sys

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGING = {  # event: which of its arguments are paths
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.mkdir": (0,),
    "os.link": (0, 1),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.utime": (0,),
    "shutil.rmtree": (0,),
    "sqlite3.connect": (0,),
    "ctypes.dlopen": (0,),
}
STARTING = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn")
CONNECTING = ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.sendmsg")
CALLED_BY_PICKLES = ("os", "posix", "subprocess", "shutil", "socket", "runpy", "importlib", "sys")


class Watch:
    """Takes every event of the process; those that lead beyond the folders go to a file."""

    def __init__(self, may, received, secret, file):
        self.may = [os.path.realpath(folder) for folder in may]
        self.received = [os.path.realpath(folder) for folder in received]
        self.secret = [os.path.realpath(folder) for folder in secret]
        self.file, self.busy = file, False

    def __call__(self, event, given):
        if self.busy:
            return
        self.busy = True
        try:
            found = self.effect(event, given)
            if found is not None:
                line = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
                os.write(line, json.dumps([event, found]).encode() + b"\n")
                os.close(line)
        finally:
            self.busy = False

    def effect(self, event, given):
        """Return what an event leads to where it is an effect; None for all others."""
        if event == "open":
            return self.opened(*given)
        if event in CHANGING:
            paths = [given[i] for i in CHANGING[event]]
            return next((str(path) for path in paths if not self.is_within(path, event)), None)
        if event in STARTING:
            command = given[1] if event == "subprocess.Popen" else given[0]
            words = [command] if isinstance(command, str | bytes) else list(map(str, command))
            ours = words[:2] == [sys.executable, "-m"] and words[2] in (
                "tracking.mlflow_log.tracker",
                "framework.libraries.measure",
            )
            return (
                None
                if ours or words[:1] in (["git"], ["uname"], ["fc-list"])
                else " ".join(map(str, words))
            )
        if event in CONNECTING:
            address = given[0] if event == "socket.getaddrinfo" else given[1]
            host = address[0] if isinstance(address, tuple) else address
            mine = host in ("127.0.0.1", "localhost", "::1") or not isinstance(address, tuple)
            mine = (mine and event != "socket.getaddrinfo") or host in ("127.0.0.1", "localhost")
            return None if mine else str(address)
        if event == "exec":
            place = getattr(given[0], "co_filename", "")
            made = place.startswith("<")  # a name, not a file: of dataclasses and the like
            return place if not made and self.is_below(place, self.received) else None
        if event == "pickle.find_class" and str(given[0]).partition(".")[0] in CALLED_BY_PICKLES:
            return ".".join(map(str, given))
        return None

    def opened(self, path, mode, flags):
        if isinstance(path, int):
            return None
        writes = (flags or 0) & WRITING if mode is None else set(mode) & set("wax+")
        if writes:
            return None if self.is_within(path, "open") else f"writes {os.fsdecode(path)}"
        return f"reads {os.fsdecode(path)}" if self.is_below(path, self.secret) else None

    def is_within(self, path, event):
        if path is None or isinstance(path, int):
            return True
        text = os.fsdecode(path)
        if event == "sqlite3.connect":
            text = text.removeprefix("file://").partition("?")[0]
            if text in ("", ":memory:") or "?mode=ro" in os.fsdecode(path):
                return True
        if event == "ctypes.dlopen":  # of the system and its packages, as each bare name is
            return os.sep not in text or not self.is_below(text, self.received)
        if text.startswith(("/dev/null", "/dev/shm", "/proc/self", "/dev/tty")):
            return True
        caches = ("__pycache__" in text or text.endswith((".pyc", ".nbi", ".nbc"))) and not (
            self.is_below(text, self.received)
        )
        return caches or self.is_below(text, self.may)

    @staticmethod
    def is_below(path, folders):
        try:
            # the folder is resolved, the last name is not: that of a link that is removed
            place = os.path.realpath(os.fsdecode(path))
        except (OSError, ValueError):
            return False
        return any(place == folder or place.startswith(folder + os.sep) for folder in folders)


if "WATCH_FILE" in os.environ:
    may, sent, secret = (os.environ[f"WATCH_{n}"].split(":") for n in ("MAY", "SENT", "SECRET"))
    sys.addaudithook(Watch(may, sent, secret, os.environ["WATCH_FILE"]))
