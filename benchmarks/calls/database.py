"""The databases of a measurement: one for each installation and for the forwarder, on one server or disk."""

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
class Database:
    """Of one program, which keeps its other files in `place`."""

    place: Path
    #: Of PostgreSQL; empty for a file in `place`.
    url: str

    @property
    def environ(self) -> dict[str, str]:
        return {"DATABASE_URL": self.url} if self.url else {}

    @property
    def is_postgresql(self) -> bool:
        return bool(self.url)

    def connect(self) -> Any:
        """A connection that commits each statement by itself."""
        if self.url:
            return psycopg.connect(self.url, autocommit=True)
        return sqlite3.connect(next(self.place.rglob("*.sqlite3")), isolation_level=None, timeout=30)

    def count(self, table: str) -> int:
        with closing(self.connect()) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


class Databases:
    def __init__(self, place: Path, server: postgresql.Server | None) -> None:
        self.place, self.server = place, server

    def new(self, name: str) -> Database:
        place = self.place / name
        place.mkdir(mode=0o700)
        return Database(place, self.server.create_database(f"bench_{name}") if self.server else "")


@contextmanager
def server(kind: str, place: Path) -> Iterator[Databases]:
    if kind == "sqlite":
        yield Databases(place, None)
        return
    with postgresql.server() as running:
        yield Databases(place, running)
