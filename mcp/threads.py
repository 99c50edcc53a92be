"""Blocking work of an event loop: in a thread, whose database connection is given back afterwards."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from django.db import connection

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(_closing, work)


def _closing(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        connection.close()
