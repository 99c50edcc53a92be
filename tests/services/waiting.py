"""Waiting for what another thread or process brings about."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def wait_for(fact: Callable[[], Found], seconds: float, what: str) -> Found:
    """What `fact` returns as soon as that is true of anything."""
    deadline = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < deadline, f"Not {what} after {seconds} s."
        time.sleep(0.02)
    return found
