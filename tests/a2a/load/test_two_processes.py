"""Two web processes over one database: of an end and a cancel one wins, and a stream misses nothing of either."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests.nhi.load.webs import Webs, running

pytestmark = [
    pytest.mark.capability("A2A-02", "A2A-05"), pytest.mark.both_databases, pytest.mark.xdist_group("house"),
]  # fmt: skip
ROUNDS, FOLLOWED, SAID = 200, 10, 8
PATIENCE = 30


@dataclass
class Town:
    webs: Webs
    #: Of who asks, and of who does it.
    asks: str
    does: str
    agent_id: str

    def sent(self) -> str:
        body = {"target_agent_id": self.agent_id, "task_type": "t", "input": {"n": 1}}
        return str(self.webs.ask("POST", "a2a/tasks", body, token=self.asks)["task_id"])

    def claimed(self, task_id: str) -> str:
        return str(self.webs.ask("POST", f"a2a/inbox/{task_id}/claim", {}, web=1, token=self.does)["lease_token"])

    def tells(self, task_id: str, verb: str, **body: Any) -> None:
        self.webs.ask("POST", f"a2a/inbox/{task_id}/{verb}", body, web=1, token=self.does)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory, broker: str) -> Iterator[Town]:
    with running(Path(tmp_path_factory.mktemp("tasks")), broker, count=2) as webs:
        made = {name: webs.ask("POST", "identities", {"kind": "agent", "name": name}) for name in ("planner", "writer")}
        ids = {name: one["id"] for name, one in made.items()}
        tokens = {name: webs.ask("POST", f"identities/{pk}/credentials", {})["token"] for name, pk in ids.items()}
        grant = {"source_id": ids["planner"], "target_id": ids["writer"], "permission_type": "call", "reason": "A test"}
        webs.ask("POST", "permissions/nhi", grant)
        yield Town(webs, tokens["planner"], tokens["writer"], ids["writer"])


class Caller:
    """One connection to one process."""

    def __init__(self, town: Town, web: int, token: str) -> None:
        self._link = HTTPConnection("127.0.0.1", town.webs.ports[web], timeout=PATIENCE)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def close(self) -> None:
        self._link.close()

    def post(self, path: str, body: Any) -> int:
        self._link.request("POST", f"/api/nhi/a2a/{path}", json.dumps(body), self._headers)
        reply = self._link.getresponse()
        reply.read()
        return reply.status


def test_of_a_completion_and_a_cancel_at_once_one_wins(town: Town) -> None:
    gate, won = threading.Barrier(2), Counter[str]()

    def at_once(caller: Caller, path: str, body: Any) -> int:
        gate.wait(PATIENCE)
        return caller.post(path, body)

    with (
        closing(Caller(town, 0, town.does)) as worker,
        closing(Caller(town, 1, town.asks)) as sender,
        ThreadPoolExecutor(2) as pool,
    ):
        for _ in range(ROUNDS):
            task_id = town.sent()
            lease = town.claimed(task_id)
            done = {"lease_token": lease, "result": {"n": 2}}
            completed = pool.submit(at_once, worker, f"inbox/{task_id}/complete", done)
            cancelled = pool.submit(at_once, sender, f"tasks/{task_id}/cancel", {})
            answers = (completed.result(PATIENCE), cancelled.result(PATIENCE))
            assert answers in {(200, 409), (409, 200)}
            word = "completed" if answers[0] == 200 else "cancelled"
            seen = [town.webs.ask("GET", f"a2a/tasks/{task_id}", web=web, token=town.asks) for web in (0, 1)]
            assert [(one["state"], one["result"]) for one in seen] == [
                (word, {"n": 2} if word == "completed" else None)
            ] * 2  # fmt: skip
            won[word] += 1
    assert sum(won.values()) == ROUNDS


def test_streams_at_one_process_tell_all_that_happens_at_the_other_once_and_in_order(town: Town) -> None:
    tasks = [town.sent() for _ in range(FOLLOWED)]
    with ThreadPoolExecutor(2 * FOLLOWED) as pool:
        begun = {task_id: threading.Event() for task_id in tasks}
        heard = [pool.submit(followed, town, task_id, begun[task_id]) for task_id in tasks]
        done = [pool.submit(worked, town, task_id, begun[task_id]) for task_id in tasks]
        for one in done:
            one.result(PATIENCE)
        for one in heard:
            numbers, said = one.result(PATIENCE)
            # How it stood when the stream began, then claimed, each word, what was made, and its end.
            assert numbers == list(range(1, SAID + 5))
            assert said == [f"word {number}" for number in range(SAID)]


def worked(town: Town, task_id: str, begun: threading.Event) -> None:
    assert begun.wait(PATIENCE)
    lease = town.claimed(task_id)
    for number in range(SAID):
        town.tells(task_id, "progress", lease_token=lease, message=f"word {number}")
    town.tells(task_id, "complete", lease_token=lease, result={"n": 2})


def followed(town: Town, task_id: str, begun: threading.Event) -> tuple[list[int], list[str]]:
    """The numbers of the events, and what the agent said in them."""
    with closing(HTTPConnection("127.0.0.1", town.webs.ports[0], timeout=PATIENCE)) as link:
        headers = {"Authorization": f"Bearer {town.asks}", "A2A-Version": "1.0", "Accept": "text/event-stream"}
        link.request("POST", f"/agents/writer/tasks/{task_id}:subscribe", "", headers)
        reply = link.getresponse()
        assert reply.status == 200, reply.read()
        numbers, said = [], []
        for number, body in told(reply):
            begun.set()
            numbers.append(number)
            message = body.get("statusUpdate", {}).get("status", {}).get("message")
            said += [part["text"] for part in message["parts"]] if message else []
        return numbers, said


def told(reply: HTTPResponse) -> Iterator[tuple[int, Any]]:
    number = 0
    for line in reply:
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name == "id":
            number = int(value)
        elif name == "data":
            yield number, json.loads(value)
