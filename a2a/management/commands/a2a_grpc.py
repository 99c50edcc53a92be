"""`manage.py a2a_grpc`: A2A over gRPC for every agent, until SIGTERM."""

import asyncio
from argparse import ArgumentParser
from ipaddress import ip_address
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError

from a2a.grpc_door.door import Door
from a2a.grpc_door.serving import CannotListen, Certificate, Serving
from a2a.operations import asking
from a2a.operations.desk import desk


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
        elif not is_loopback(bind):
            self.say(
                f"Tokens of whoever calls {bind} are readable on the way: set GRPC_TLS_CERTIFICATE and GRPC_TLS_KEY."
            )
        door = Door(asking, usual=settings.USUAL_AGENT)
        serving = Serving(door, address=bind, port=port, certificate=certificate)
        await serving.run(lambda at: self.say(f"Listening on {bind}, port {at}."))

    def say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def is_loopback(bind: str) -> bool:
    try:
        return ip_address(bind).is_loopback
    except ValueError:
        return bind == "localhost"
