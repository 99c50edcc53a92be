"""Rows of the log as calls would have left them, at any time."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID, uuid5

from common.ids import uuid7
from nhi.audit import invocations
from nhi.models import InvocationLog

PLACE = UUID("01a1ef00-0000-7000-8000-000000000000")


def call(
    at: datetime, status: str = "success", duration: float = 10.0, *, agent: str = "bot", server: str = "peer",
    tool: str = "echo",
) -> InvocationLog:  # fmt: skip
    begun = invocations.begin(
        call_id=uuid7(), at=at, agent=(uuid5(PLACE, agent), agent), tool_id=None, tool_name=server, method=tool,
        args_hash="0" * 64, request_id=uuid7(), source="",
    )  # fmt: skip
    return InvocationLog(**invocations.end(begun, status=status, duration=duration))


def write(rows: Iterable[InvocationLog]) -> None:
    InvocationLog.objects.bulk_create(list(rows))
