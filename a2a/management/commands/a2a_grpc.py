"""`manage.py a2a_grpc`: A2A over gRPC for every agent, until SIGTERM."""

import asyncio
import logging
from argparse import ArgumentParser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError
from django.db import DatabaseError

from a2a.grpc_door.door import Door
from a2a.grpc_door.serving import CannotListen, Certificate, Serving
from a2a.operations import asking
from a2a.operations.desk import desk
from common.egress.addresses import is_loopback_host
from nhi import process_heartbeats
from nhi.models.processes import ProcessKind

log = logging.getLogger(__name__)
TELL_EVERY = 5.0


class Command(BaseCommand):
    help = "Serve A2A 1.0 and 0.3 over gRPC, for every agent, until SIGTERM. `up` starts it."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--bind", default="127.0.0.1", metavar="ADDRESS", help="Listen on this address (%(default)s)."
        )
        parser.add_argument(
            "--port",
            type=int,
            default=settings.GRPC_PORT,
            metavar="N",
            help="Listen here (%(default)s); GRPC_PORT says it too.",
        )

    def handle(self, *, bind: str, port: int, **_: Any) -> None:
        try:
            asyncio.run(self.serve(bind, port))
        except CannotListen as problem:
            raise CommandError(str(problem)) from None
        finally:
            desk.close()

    async def serve(self, bind: str, port: int) -> None:
        certificate = None
        if settings.GRPC_TLS_CERTIFICATE and settings.GRPC_TLS_KEY:
            certificate = Certificate(settings.GRPC_TLS_CERTIFICATE, settings.GRPC_TLS_KEY)
        elif not is_loopback_host(bind):
            self.say(
                f"Tokens of whoever calls {bind} are readable on the way: set GRPC_TLS_CERTIFICATE and GRPC_TLS_KEY."
            )
        door = Door(asking, usual=settings.USUAL_AGENT)
        serving = Serving(door, address=bind, port=port, certificate=certificate)
        async with heard_of():
            await serving.run(lambda at: self.say(f"Listening on {bind}, port {at}."))

    def say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


@asynccontextmanager
async def heard_of() -> AsyncIterator[None]:
    """The house hears that this process lives, for as long as it does, and then that it ended in good order."""
    telling = asyncio.create_task(_tell())
    try:
        yield
    finally:
        telling.cancel()
        with suppress(DatabaseError):
            await desk.do(partial(process_heartbeats.remove_own, kind=ProcessKind.GRPC))


async def _tell() -> None:
    while True:
        try:
            await desk.do(partial(process_heartbeats.record_heartbeat, kind=ProcessKind.GRPC))
        except DatabaseError as error:
            log.warning("No heartbeat: the database is away (%s).", type(error).__name__)
        await asyncio.sleep(TELL_EVERY)
