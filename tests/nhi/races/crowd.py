"""Many at once: threads that start together, each with a connection and commits of its own."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connection

#: PostgreSQL's pool holds eight connections, one of which the test itself may have.
WIDTH = 7


def at_once(times: int, act: Callable[[int], Any]) -> list[Any]:
    """What each of `times` calls returned or raised; as many of them at one time as there are connections."""
    barrier = threading.Barrier(min(times, WIDTH))

    def one(number: int) -> Any:
        try:
            if number < barrier.parties:
                barrier.wait(10)
            return act(number)
        except Exception as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=min(times, WIDTH)) as pool:
        return list(pool.map(one, range(times)))


def split(outcomes: list[Any], *refusals: type[Exception]) -> tuple[list[Any], int]:
    """Those that worked, and how many were refused; any other error is a failure of the test."""
    strange = [outcome for outcome in outcomes if isinstance(outcome, Exception) and not isinstance(outcome, refusals)]
    assert not strange, strange
    done = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
    return done, len(outcomes) - len(done)
