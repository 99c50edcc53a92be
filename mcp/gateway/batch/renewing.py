"""The calls of this process that are under way: their leases are renewed, and one that must stop is told so."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from mcp.gateway.batch import database
from mcp.gateway.batch.reserving import GRACE, LEASE
from mcp.gateway.types import Answer, Ticket

RENEW_EVERY = 10.0
Stop = Callable[[str], None]


@dataclass
class Flight:
    ticket: Ticket
    began: float
    renewed: float
    stop: Stop | None = None
    stopped: str = ""


class Flights:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_call: dict[UUID, Flight] = {}

    def __bool__(self) -> bool:
        return bool(self._by_call)

    def begin(self, answer: Answer) -> None:
        if isinstance(answer, Ticket):
            now = time.monotonic()
            with self._lock:
                self._by_call[answer.call_id] = Flight(answer, now, now)

    def end(self, call_id: UUID) -> None:
        with self._lock:
            self._by_call.pop(call_id, None)

    def on_stop(self, call_id: UUID, stop: Stop) -> None:
        """Whom to tell when this call must be given up; at once, if that was said before."""
        with self._lock:
            flight = self._by_call.get(call_id)
            if flight is not None:
                flight.stop = stop
        if flight is not None and flight.stopped:
            stop(flight.stopped)

    def renew(self) -> None:
        """Look whether any was stopped, and move the deadlines of those that need it."""
        with self._lock:
            flights = dict(self._by_call)
        if not flights:
            return
        self._tell_the_stopped(flights)
        now = time.monotonic()
        due = [flight for flight in flights.values() if now - flight.renewed >= RENEW_EVERY]
        for flight in due:
            self._move(flight, now)

    def _tell_the_stopped(self, flights: dict[UUID, Flight]) -> None:
        condition, values = database.ids(list(flights))
        rows = database.run(
            f"SELECT id, stop_reason FROM mcp_call WHERE id {condition} AND stop_reason <> ''",  # noqa: S608 - our own names
            values,
        )
        for call_id, reason in rows:
            flight = flights[UUID(str(call_id))]
            if not flight.stopped:
                flight.stopped = reason
                if flight.stop is not None:
                    flight.stop(reason)

    def _move(self, flight: Flight, now: float) -> None:
        """Never past the call's own deadline: a process that hangs does not keep its slots for ever."""
        left = flight.ticket.timeout + GRACE.total_seconds() - (now - flight.began)
        seconds = min(LEASE.total_seconds(), left)
        if seconds > 0:
            for table, column in (("mcp_call", "id"), ("mcp_call_slot", "call_id")):
                database.run(
                    f"UPDATE {table} SET deadline = {_later()} WHERE {column} = %s",  # noqa: S608 - our own names
                    [
                        seconds if database.is_postgresql() else f"+{seconds} seconds",
                        database.plain_id(flight.ticket.call_id),
                    ],
                )
        flight.renewed = now


def _later() -> str:
    if database.is_postgresql():
        return "STATEMENT_TIMESTAMP() + make_interval(secs => %s)"
    return "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW', %s)"
