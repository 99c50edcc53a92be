"""Which processes one host runs, and how each is called."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from django.conf import settings

from config.launcher import broker
from config.launcher.children import Child

WEB = (sys.executable, "-m", "config.launcher.uvicorn_server")
CELERY = (sys.executable, "-m", "celery", "--quiet", "-A", "config")
WORKER = (*CELERY, "worker", "--without-mingle", "--without-gossip", "--without-heartbeat")
CONTROL = (*WORKER, "-Q", "control", "-n", "control@%h", "--pool", "prefork", "--concurrency", "2")
RUNS = (*WORKER, "-Q", "runs", "-n", "runs@%h", "--pool", "threads", "--concurrency", "4")


def environ(metrics: Path, address: str) -> dict[str, str]:
    """The launcher's own, with what it has decided said out loud; `address` is where it listens."""
    near = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104 - read, not listened on
    return {
        "GRPC_PROBE": f"[{near}]:{settings.GRPC_PORT}" if ":" in near else f"{near}:{settings.GRPC_PORT}",
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "GATEHOUSE_DATA": str(settings.DATA),
        "PORT": str(settings.PORT),
        "GRPC_PORT": str(settings.GRPC_PORT),
        "PROMETHEUS_MULTIPROC_DIR": str(metrics),
        "PYTHONUNBUFFERED": "1",
        # Celery would run Django's system checks in each worker, a second of start-up; `make check` runs them.
        "CELERY_SKIP_CHECKS": "1",
    }


def valkey(env: Mapping[str, str]) -> list[Child]:
    if settings.VALKEY_SOCKET is None:
        return []
    return [_child("valkey", broker.command(settings.DATA, settings.VALKEY_SOCKET), env)]


def web(env: Mapping[str, str], listener: int, *, reload: bool = False) -> list[Child]:
    """Single processes on one listening socket: a connection waits there while one of them is being restarted."""
    argv = [*WEB, str(listener), *(["--reload"] if reload else [])]
    count = 1 if reload else settings.WEB_WORKERS
    return [_child(f"web-{number}", argv, env, fds=(listener,)) for number in range(1, count + 1)]


def grpc(env: Mapping[str, str], address: str) -> list[Child]:
    return [_child("grpc", [sys.executable, "manage.py", "a2a_grpc", "--bind", address], env)]


def workers(env: Mapping[str, str]) -> list[Child]:
    return [_child("worker-control", [*CONTROL], env), _child("worker-runs", [*RUNS], env)]


def stdio_owner(env: Mapping[str, str]) -> list[Child]:
    return [_child("stdio-owner", [sys.executable, "manage.py", "mcp_stdio_owner"], env)]


def beat(env: Mapping[str, str]) -> list[Child]:
    return [_child("beat", [*CELERY, "beat", "-s", str(settings.DATA / "beat-schedule")], env)]


def tck(env: Mapping[str, str], token: str) -> list[Child]:
    """The agent of the protocol's test kit: a worker like any other, that knows of the house its address alone."""
    if not token:
        return []
    told = {"GATEHOUSE_URL": settings.PUBLIC_URL, "GATEHOUSE_TOKEN": token, "PYTHONUNBUFFERED": "1"}
    told["TCK_INPUT_REQUIRED"] = "1" if settings.TCK_INPUT_REQUIRED else ""
    argv = [sys.executable, str(settings.BASE_DIR / "examples" / "agents" / "tck.py")]
    return [_child("tck", argv, {name: env[name] for name in ("PATH", "HOME", "LANG") if name in env} | told)]


def _child(name: str, argv: list[str], env: Mapping[str, str], fds: tuple[int, ...] = ()) -> Child:
    log = settings.DATA / "logs" / f"{name}.log"
    return Child(name=name, argv=argv, environ=env, cwd=settings.BASE_DIR, log=log, fds=fds)
