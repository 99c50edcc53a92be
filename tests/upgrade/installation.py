"""The stored installation: its keys, its files, and how a database gets into a file and out of it again."""

import gzip
import http.client
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.services import postgresql
from tests.services.house import House
from tests.services.migrated import FILE, ROOT

DATA = Path(__file__).parent / "data"
#: Where the keys are published that sign agent cards.
CARD_KEYS = "/.well-known/jwks.json"
SQLITE, POSTGRESQL = "sqlite", "postgresql"
#: The settings of the stored installation. Its tokens and sealed values are of these keys alone.
ENVIRON = {
    "SECRET_KEY": "the secret key of the stored installation, and of nothing else",
    "TOKEN_PEPPER": "the token pepper of the stored installation, and of nothing else",
    "FIELD_KEYS": f"u1:{'C' * 42}A",
    "SIGNING_KEYS": f"u1:{'D' * 42}A",
    # A busy machine takes runs all the same.
    "RUN_MAX_LOAD": "1000",
}


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any


def request(house: House, method: str, path: str, *, token: str, body: Any = None, **headers: str) -> Answer:
    """One request with this bearer token; names of headers are given with underscores."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    fields |= {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with closing(http.client.HTTPConnection("127.0.0.1", house.port, timeout=20)) as connection:
        connection.request(method, path, body=None if body is None else json.dumps(body), headers=fields)
        response = connection.getresponse()
        text = response.read()
    return Answer(response.status, json.loads(text) if text else None)


def run_apart(house: House, *arguments: str) -> Any:
    """Run `python -m tests.upgrade` in a process with the installation's settings; return the JSON that it prints."""
    environ = {**house.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    command = [sys.executable, "-m", "tests.upgrade", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def dump_sqlite(data: Path, target: Path) -> None:
    whole = data / "whole.sqlite3"
    with closing(sqlite3.connect(data / FILE)) as database:
        database.execute("VACUUM INTO ?", (str(whole),))
    compress(whole.read_bytes(), target)


def restore_sqlite(source: Path, data: Path) -> None:
    data.mkdir(mode=0o700, parents=True)
    (data / FILE).write_bytes(gzip.decompress(source.read_bytes()))


def dump_postgresql(url: str, target: Path) -> None:
    command = [str(program("pg_dump")), "--no-owner", "--no-privileges", url]
    compress(subprocess.run(command, env=without_pg_variables(), capture_output=True, check=True).stdout, target)


def restore_postgresql(source: Path, url: str) -> None:
    command = [str(program("psql")), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", url]
    subprocess.run(
        command, env=without_pg_variables(), input=gzip.decompress(source.read_bytes()), capture_output=True, check=True
    )


def compress(content: bytes, target: Path) -> None:
    target.write_bytes(gzip.compress(content, compresslevel=9, mtime=0))


def program(name: str) -> Path:
    return postgresql.installation() / "bin" / name


def without_pg_variables() -> Mapping[str, str]:
    """Without the variables from which PostgreSQL's programs take a server or a password."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def copy_tracked(target: Path) -> None:
    """Copy the files that Git knows of this tree, and link its virtual environment."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)
    (target / ".venv").symlink_to((ROOT / ".venv").resolve())
