"""Tests of servers behind the stage's writer, asked over REST."""

import json
from dataclasses import dataclass
from typing import Any

from tests.a2a.conftest import Stage
from tests.a2a.remote.far_side import error
from tests.api.callers import Caller, Reply

SECRET = "s3cret-value-of-ours"
UNKNOWN = error(-32001, "Task not found")


@dataclass
class Bench:
    stage: Stage

    def path(self) -> str:
        return f"a2a/runtimes/{self.stage.writer.pk}"

    def set(self, url: str, **more: Any) -> None:
        body = {"kind": "remote", "url": url, "scheme": "Bearer", "credential": SECRET, **more}
        chosen = self.stage.admin.send("PUT", self.path(), json.dumps(body))
        assert chosen.status == 200, chosen.body

    def asks(self, caller: Caller | None = None) -> Reply:
        return (caller or self.stage.admin).post(f"{self.path()}/test", {})

    def finds(self, url: str, **more: Any) -> Any:
        self.set(url, **more)
        found = self.asks()
        assert found.status == 200, found.body
        assert SECRET not in json.dumps(found.body)
        return found.body


def steps(body: Any) -> list[tuple[str, bool]]:
    return [(step["step"], step["passed"]) for step in body["steps"]]
