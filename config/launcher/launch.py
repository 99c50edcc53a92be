"""From an empty data directory to a house that is ready, and back."""

import http.client
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from django.conf import settings
from django.db import connections

from config.celery import app
from config.launcher import broker, plan
from config.launcher.house import House
from config.launcher.listeners import listen
from nhi import process_heartbeats

Say = Callable[[str], None]
PATIENCE = 30.0


def run(*, address: str, say: Say, greet: Callable[[], None], tck: str = "", reload: bool = False) -> None:
    """Start every process, call `greet` once all are ready, and stay until a signal says stop."""
    listener = listen(address, settings.PORT, "PORT or --port")
    with closing(listener), prepared(listener, say, tck, reload=reload) as house:
        reached = partial(ready, address, settings.PORT)
        if not house.watch(reached, every=0.1, longest=PATIENCE) and house.told_to_stop is None:
            say(f"Not ready after {PATIENCE:.0f} s; going on. What is missing: {settings.PUBLIC_URL}/readyz")
            house.watch(reached, every=1)
        if house.told_to_stop is None:
            greet()
            let_go_of_the_database()
        house.watch()
        say("Stopping ...")
    say("Stopped.")


@contextmanager
def prepared(listener: socket.socket, say: Say, tck: str, *, reload: bool) -> Iterator[House]:
    """The house with everything started in order, and everything ended on the way out, also after an error."""
    address = listener.getsockname()[0]
    # Its server listens for itself; whether it can is for whoever starts the house to hear now.
    listen(address, settings.GRPC_PORT, "GRPC_PORT").close()
    env = plan.environ(fresh_directory("metrics"), address)
    fresh_directory("logs", keep=True)
    valkey = plan.valkey(env)
    first = [*plan.beat(env), *plan.grpc(env, address)]
    web = plan.web(env, listener.fileno(), reload=reload)
    others = [plan.tck(env, tck), first, web, plan.workers(env), plan.stdio_owner(env)]
    house = House([*others, valkey], say)
    process_heartbeats.remove_dead()
    let_go_of_the_database()
    house.listen()
    try:
        house.start(valkey)
        answers = partial(broker.answers, settings.VALKEY_SOCKET)
        if valkey and house.watch(answers, every=0.02):
            broker.requeue(app)
        for children in reversed(others):
            house.start(children)
        yield house
    finally:
        house.stop()


def let_go_of_the_database() -> None:
    """The launcher lives long and rarely needs it: keep no connection, and no pool that would renew one."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        if close_pool := getattr(connection, "close_pool", None):
            close_pool()


def ready(address: str, port: int) -> bool:
    """Ask /readyz from outside, the way everybody else will."""
    host = settings.ALLOWED_HOSTS[0].strip("*.") or "localhost"
    with closing(http.client.HTTPConnection(address, port, timeout=4)) as link:
        try:
            link.request("GET", "/readyz", headers={"Host": host})
            return link.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False


def fresh_directory(name: str, *, keep: bool = False) -> Path:
    path = settings.DATA / name
    if not keep:
        shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path
