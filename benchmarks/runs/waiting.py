"""Waiting for what other processes do, and giving up when it does not come."""

import time
from collections.abc import Callable

PATIENCE = 180.0


def until(fact: Callable[[], object], what: str, *, every: float = 0.05) -> None:
    deadline = time.monotonic() + PATIENCE
    while not fact():
        if time.monotonic() > deadline:
            raise SystemExit(f"Not after {PATIENCE:g} s: {what}.")
        time.sleep(every)
