"""How long an event takes to all who follow its task: a process of its own, agent and followers in one.

Its input is one line: `{"ports": [...], "agent": ..., "sends": token, "works": token, "tasks": N, "followers": N,
"seconds": S, "every": S}`, its output another. The agent says in each event by the clock when it began to write it;
followers are parted over the ports.
"""

import asyncio
import json
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import uvloop

TALK = aiohttp.ClientTimeout(total=60)
#: A stream is silent between events.
STREAM = aiohttp.ClientTimeout(total=None, sock_read=60)
#: What follows is about the protocol's own words.
VERSION = {"A2A-Version": "1.0"}
SENT = {
    "message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Say how it goes."}]},
    "configuration": {"returnImmediately": True},
}


@dataclass
class Follower:
    task: str
    port: int
    #: When what was said was said, and how long it took to come here.
    heard: list[tuple[str, float]] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, line: bytes, now: float) -> None:
        told = json.loads(line.removeprefix(b"data: "))["result"]
        status = told.get("statusUpdate", {}).get("status", {})
        if "message" in status:
            said = status["message"]["parts"][0]["text"]
            self.heard.append((said, now - float(said)))
        self.begun.set()


@dataclass
class Scene:
    ports: list[int]
    agent: str
    sends: str
    works: str
    tasks: int
    followers: int
    seconds: float
    every: float
    session: aiohttp.ClientSession = field(init=False)

    async def run(self) -> dict[str, Any]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as self.session:
            leases = dict([await self.claimed(number) for number in range(self.tasks)])
            names = list(leases)
            followers = [
                Follower(names[number % len(names)], self.ports[number % len(self.ports)])
                for number in range(self.followers)
            ]
            streams = [asyncio.create_task(self.follow(one)) for one in followers]
            await asyncio.gather(*(one.begun.wait() for one in followers))
            said, written = await self.tell(leases)
            for task, lease in leases.items():
                await self.works_on(0, task, "complete", {"lease_token": lease, "result": None})
            await asyncio.gather(*streams)
        return judged(followers, said, written)

    async def claimed(self, number: int) -> tuple[str, str]:
        """A new task that this agent holds."""
        told = await self.rpc(self.ports[number % len(self.ports)], "SendMessage", SENT)
        task = str(told["result"]["task"]["id"])
        return task, str((await self.works_on(number, task, "claim", {"lease_seconds": 600}))["lease_token"])

    async def tell(self, leases: dict[str, str]) -> tuple[dict[str, list[str]], list[float]]:
        """One event after the other at a steady pace: what was said in each task, and what saying it took."""
        said: dict[str, list[str]] = {task: [] for task in leases}
        written: list[float] = []
        began, names = time.monotonic(), list(leases)
        for number in range(max(round(self.seconds / self.every), 1)):
            await asyncio.sleep(max(began + number * self.every - time.monotonic(), 0))
            task, now = names[number % len(names)], time.time()
            said[task].append(repr(now))
            await self.works_on(number, task, "progress", {"lease_token": leases[task], "message": repr(now)})
            written.append(time.time() - now)
        return said, written

    async def follow(self, follower: Follower) -> None:
        """To the end of its task."""
        async with self.session.post(
            self.url(follower.port, f"/agents/{self.agent}/"), data=asked("SubscribeToTask", {"id": follower.task}),
            headers=self.headers(self.sends), timeout=STREAM,
        ) as reply:  # fmt: skip
            async for line in reply.content:
                if line.startswith(b"data: "):
                    follower.hear(line, time.time())

    async def rpc(self, port: int, method: str, params: Any) -> Any:
        url, headers = self.url(port, f"/agents/{self.agent}/"), self.headers(self.sends)
        async with self.session.post(url, data=asked(method, params), headers=headers, timeout=TALK) as reply:
            return await reply.json()

    async def works_on(self, number: int, task: str, verb: str, body: Any) -> Any:
        """By one web process after the other."""
        url = self.url(self.ports[number % len(self.ports)], f"/api/nhi/a2a/inbox/{task}/{verb}")
        async with self.session.post(url, json=body, headers=self.headers(self.works), timeout=TALK) as reply:
            if reply.status != 200:
                raise SystemExit(f"{verb}: {reply.status} {await reply.text()}")
            return await reply.json()

    def url(self, port: int, path: str) -> str:
        return f"http://127.0.0.1:{port}{path}"

    def headers(self, token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **VERSION}


def asked(method: str, params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def judged(followers: list[Follower], said: dict[str, list[str]], written: list[float]) -> dict[str, Any]:
    wrong = sum([told for told, _ in one.heard] != said[one.task] for one in followers)
    took = [took for one in followers for _, took in one.heard]
    cuts = statistics.quantiles(took, n=100) if len(took) > 1 else [0.0] * 99
    percentiles = {f"p{part}_ms": round(cuts[part - 1] * 1000, 1) for part in (50, 95, 99)}
    most, middle = max(took, default=0.0), statistics.median(written)
    return {
        "events": len(written), "wrong": wrong, **percentiles, "most_ms": round(most * 1000, 1),
        "written_ms": round(middle * 1000, 1),
    }  # fmt: skip


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(uvloop.run(Scene(**json.loads(line)).run())), flush=True)


if __name__ == "__main__":
    main()
