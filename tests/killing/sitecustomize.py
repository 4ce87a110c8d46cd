"""Python runs this at the start of a process whose PYTHONPATH has this folder."""

import os

from tests.killing import Steps

if "TEST_KILL_AT" in os.environ:
    Steps(int(os.environ["TEST_KILL_AT"]))
