"""The databases of one measurement: one for the gateway, one for the forwarder, on the same server or disk."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.services import postgresql

KINDS = ("postgresql", "sqlite")


@dataclass(frozen=True)
class Stand:
    kind: str
    place: Path
    #: Of PostgreSQL: where the gateway and where the forwarder write.
    gateway_url: str = ""
    forwarder_url: str = ""

    def for_gateway(self) -> dict[str, str]:
        return {"DATABASE_URL": self.gateway_url} if self.gateway_url else {}

    def for_forwarder(self) -> dict[str, str]:
        if self.forwarder_url:
            return {"DATABASE_URL": self.forwarder_url}
        return {"FORWARD_LOG": str(self.place / "forwarded.sqlite3")}

    def forwarded(self) -> int:
        """Rows that the forwarder committed."""
        return int(self.forwarder_scalar("SELECT count(*) FROM forwarded"))

    def forwarder_scalar(self, query: str) -> Any:
        if self.forwarder_url:
            return scalar(psycopg.connect(self.forwarder_url), query)
        return scalar(sqlite3.connect(self.place / "forwarded.sqlite3"), query)


def scalar(connection: Any, query: str) -> Any:
    with closing(connection):
        return connection.execute(query).fetchone()[0]


@contextmanager
def server(kind: str, place: Path) -> Iterator[Stand]:
    if kind == "sqlite":
        yield Stand(kind, place)
        return
    with postgresql.server() as running:
        urls = [running.create_database(name) for name in ("bench_gateway", "bench_forwarder")]
        yield Stand(kind, place, *urls)
