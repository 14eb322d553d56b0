"""Another process that holds a folder."""

import subprocess
import sys
from contextlib import contextmanager

HOLDER = """
import sys
from segcertify.storage.lock import locked

with locked(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(folder):
    """Another process that holds the folder, until its standard input ends."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
