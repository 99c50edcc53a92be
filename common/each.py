"""One thing that fails must not hold up those behind it: work of the clock, a row or a step at a time."""

import logging
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError

log = logging.getLogger(__name__)
Item = TypeVar("Item")


def run_isolated(work: Callable[[Item], int | None], what: Item) -> int:
    """How many it did; none where it failed, which is in the log. Without a database nothing goes on."""
    try:
        return work(what) or 0
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("What the clock found could not be done.", extra={"what": str(what)})
        return 0
