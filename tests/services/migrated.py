"""A migrated database, made once in a test process: what is not about a first start begins with a copy of it."""

import atexit
import functools
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parent.parent.parent
FILE = "gatehouse.sqlite3"


def copy_to(data: Path) -> None:
    """Into a data directory that is made for it."""
    copy(embedded(), data)


def copy(source: Path, target: Path) -> None:
    """Of one data directory's database into another, with what is still in its journal."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    with closing(sqlite3.connect(source / FILE)) as old, closing(sqlite3.connect(target / FILE)) as new:
        old.backup(new)


@functools.cache
def embedded() -> Path:
    """The data directory of one that nobody has used."""
    data = directory()
    plain = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    subprocess.run(command, cwd=ROOT, env={**plain, "GATEHOUSE_DATA": str(data)}, check=True)
    return data


def directory() -> Path:
    """One that is there until this process ends."""
    made = Path(tempfile.mkdtemp(prefix="gatehouse-migrated-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def create_database(url: str, template: str = "") -> str:
    """On the server of this URL: the name of a database that is empty, or a copy of another."""
    name = f"webs_{secrets.token_hex(4)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{template}"' if template else ""))
    return name


def drop_database(url: str, name: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
