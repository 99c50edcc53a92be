"""Web processes over the test's own database, which end without a word."""

import http.client
import json
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings

from tests.nhi.load.webs import answers, start
from tests.services.house import PLAIN
from tests.services.postgresql import free_port
from tests.settings import KEYS_FOR_TESTS
from tests.supervisor.workers import database_url


class Web:
    def __init__(self, place: Path, broker: str, token: str, **environ: str) -> None:
        self.port, self._token = free_port(), token
        plain = {name: os.environ[name] for name in PLAIN if name in os.environ}
        own = {
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "GATEHOUSE_DATA": str(settings.DATA),
            "DATABASE_URL": database_url(),
            "BROKER_URL": broker,
            "EXECUTABLE_ALLOWLIST": str(settings.EXECUTABLE_ALLOWLIST),
        }
        self.log = place / f"web-{self.port}.log"
        self.process = start(self.port, {**plain, **KEYS_FOR_TESTS, **own, **environ}, self.log)

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while not answers(self.port):
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.05)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Anything but a 2xx is an error."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as link:
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
            said = None if body is None else json.dumps(body)
            link.request(method, f"/api/nhi/supervisor/sessions{path}", said, headers)
            reply = link.getresponse()
            answer = reply.read()
        assert reply.status < 300, (method, path, reply.status, answer)
        return json.loads(answer)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def serving(place: Path, broker: str, token: str, **environ: str) -> Iterator[Web]:
    web = Web(place, broker, token, **environ)
    try:
        web.wait_until_ready()
        yield web
    finally:
        web.kill()
