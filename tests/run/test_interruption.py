"""A signal ends a search between two batches, a second one at once; then signals are as before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from framework.preparation import PreparationProgress
from framework.run.driver import Progress
from framework.run.interruption import Interruption


@pytest.fixture
def interruption():
    lines = []
    callback = Interruption(lines.append)
    callback.lines = lines
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    callback.on_start()
    yield callback
    callback.close()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_batch(interruption, number):
    interruption.on_batch(Progress())
    os.kill(os.getpid(), number)
    assert interruption.lines == [
        "stopping after this batch, in 10 s at the latest; once more stops at once"
    ]
    with pytest.raises(KeyboardInterrupt):
        interruption.on_batch(Progress())


def test_a_signal_waits_for_the_next_report_of_work(interruption):
    interruption.on_preparation(PreparationProgress("training", 1, 9, 1.0))
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        interruption.on_preparation(PreparationProgress("training", 2, 9, 1.0))


def test_a_second_signal_does_not_wait(interruption):
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_batch_that_takes_long_is_given_up(interruption, monkeypatch):
    monkeypatch.setattr("framework.run.interruption._BATCH_SECONDS", 0.2)
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        time.sleep(30)


def test_what_ends_in_time_is_not_interrupted_again(interruption, monkeypatch):
    monkeypatch.setattr("framework.run.interruption._BATCH_SECONDS", 0.2)
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        interruption.on_batch(Progress())
    time.sleep(0.4)  # a further signal would raise here


def test_a_search_that_ends_gives_the_signals_back(interruption):
    interruption.on_end(Progress())
    assert signal.getsignal(signal.SIGINT) != interruption._on_signal


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("number", "work", "code"),  # an exception in a destructor is lost
    [
        ("TERM", "hashlib.pbkdf2_hmac('sha256', b'a', b'b', 2_000_000_000)", 130),  # without end
        ("TERM", "time.sleep(100)", 7),  # where the handler can run, it does
        ("TERM", "type('A', (), {'__del__': lambda self: time.sleep(9)})(); time.sleep(100)", 7),
        ("HUP", "time.sleep(100)", 7),  # the terminal was closed
        ("HUP", "Interruption(print).on_start(); time.sleep(100)", 7),
        ("HUP", "time.sleep(3)", 0),  # under nohup
    ],
)
def test_a_signal_ends_compiled_code_too(number, work, code):
    program = (
        "import hashlib, sys, time\n"
        "from framework.run.interruption import Interruption, interruptible\n"
        "try:\n"
        "    with interruptible(0.5):\n"
        "        print('begun', flush=True)\n"
        f"        {work}\n"
        "except KeyboardInterrupt:\n"
        "    time.sleep(1.0)\n"  # time for whatever it likes once it is handled
        "    sys.exit(7)"
    )
    command = ["env" if code else "nohup", sys.executable, "-c", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    time.sleep(1.0)  # until it is in the call
    process.send_signal(getattr(signal, f"SIG{number}"))
    assert process.wait(60) == code
