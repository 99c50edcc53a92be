"""The embedded broker by itself, for tests that need one and no house around it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.process.parent_death import SCRIPT_PATH as LEASH
from config.launcher import broker


@contextmanager
def server(socket: Path) -> Iterator[None]:
    leash = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), "-1"]
    arguments = [*leash, *broker.command(socket.parent, socket)]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + 10
        while not broker.answers(socket):
            assert process.poll() is None, "Valkey ended while it started."
            assert time.monotonic() < deadline, "Valkey does not answer."
            time.sleep(0.01)
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)
