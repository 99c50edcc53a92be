"""Runs periodic work item by item, so that an item that fails does not stop the items after it."""

import logging
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError

log = logging.getLogger(__name__)
Item = TypeVar("Item")


def run_isolated(work: Callable[[Item], int | None], item: Item) -> int:
    """Return the count from `work(item)`, or 0 and a log entry if it fails. Database connection errors are raised."""
    try:
        return work(item) or 0
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("What the clock found could not be done.", extra={"what": str(item)})
        return 0
