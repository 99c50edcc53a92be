"""`manage.py seed_gateway_demo`: the demo's server, tools, grants and first calls; a second run changes nothing."""

import logging
from typing import Any

from django.core.management import BaseCommand

from common import egress
from common.executors import background_loop
from mcp import demo
from mcp.client import transports
from mcp.gateway.batch.worker import batch_worker


class Command(BaseCommand):
    help = "Seed the gateway's part of the demo. The house must be up: the server is met for it."

    def handle(self, *_args: Any, **_options: Any) -> None:
        logging.getLogger("mcp.calls").setLevel(logging.WARNING)
        try:
            self.stdout.write(demo.seed())
        finally:
            batch_worker.stop()
            background_loop.stop(_let_go)


async def _let_go() -> None:
    await transports.close_all()
    await egress.close_session()
