"""`manage.py mcp_stdio_owner`: run servers over standard input for the other processes of this host."""

import asyncio
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand

from common.process import file_lock
from mcp import celery_tasks
from mcp.servers.targets import load_http_revisions, load_launch, load_target
from mcp.stdio_host import main
from mcp.stdio_host.main import HostBackend

HOUSE = HostBackend(load_launch, load_http_revisions, load_target, celery_tasks.queue_refresh)


class Command(BaseCommand):
    help = "Run servers over standard input for the other processes of this host, until SIGTERM. `up` starts it."
    requires_system_checks = []

    def handle(self, **_: Any) -> None:
        try:
            with file_lock.hold_file_lock(settings.DATA / main.LOCK_NAME):
                asyncio.run(main.run_host(data=settings.DATA, socket=settings.STDIO_SOCKET, backend=HOUSE))
        except file_lock.FileLockedError as other:
            # Not a failure: there is one, which is what was asked for.
            self.stdout.write(f"The stdio owner of {settings.DATA} already runs (process {other.holder}).")
