"""The same operations over an installation with few tasks and one with many: `fill` makes them of copies of one."""

import http.client
import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.calls.database import Database, Databases
from benchmarks.calls.filling import AGENTS, Filler
from benchmarks.calls.load import MARK
from benchmarks.calls.processes import Cell, Load, Request, Target
from benchmarks.tasks import tallying, words
from benchmarks.tasks.house import House, house
from benchmarks.tasks.making import CALLER, PARKED

CONNECTIONS = 4
TURNS, WARM = 5, 0.2
#: How much slower than over few tasks counts as flat.
FLAT = 1.2
#: How many times as many; and how many of them each caller has at most, in both.
TIMES, EACH = 100, 1_000
TASKS, EVENTS, MESSAGES = "0006", "0007", "0008"
#: Events of a task that ended at once.
MOST_EVENTS = 8


@dataclass(frozen=True)
class Growth:
    database: str
    few: int
    many: int
    #: By operation: over few, and over many.
    cells: dict[str, tuple[Cell, Cell]]

    def times(self, name: str) -> float:
        few, many = self.cells[name]
        return round(many.p50_ms / max(few.p50_ms, 0.001), 2)

    def as_dict(self) -> dict[str, Any]:
        told = {
            name: {"few": few.as_dict(), "many": many.as_dict(), "times": self.times(name)}
            for name, (few, many) in self.cells.items()
        }
        return {"database": self.database, "few": self.few, "many": self.many, "cells": told}

    def text(self) -> str:
        head = f"{'p50 ms':>10}{'p95 ms':>10}{'CPU ms':>10}"
        lines = [f"{self.database}: {self.few} stored tasks, and {self.many}", "", f"{'':<24}{head}{head}{'p50 x':>8}"]
        return "\n".join([*lines, *(self._line(name) for name in self.cells)])

    def _line(self, name: str) -> str:
        both = self.cells[name]
        numbers = "".join(f"{number:>10}" for cell in both for number in (cell.p50_ms, cell.p95_ms, cell.cpu_ms))
        times, wrong = self.times(name), "".join(cell.complaint for cell in both)
        # Nothing at all was answered in its turns: slower than can be said.
        flat = all(cell.p50_ms for cell in both) and times <= FLAT
        return f"{name:<24}{numbers}{times:>8} {'flat' if flat else 'NOT FLAT'}{wrong}"


def compare(clients: Load, databases: Databases, database: str, many: int, seconds: float) -> Growth:
    sizes = {"few": max(many // TIMES, 1), "many": many}
    with ExitStack() as stack:
        gates = {name: stack.enter_context(house(databases.new(name))) for name in sizes}
        each = min(EACH, sizes["few"])
        targets = {name: grown(gate, sizes[name], each) for name, gate in gates.items()}
        turns: dict[tuple[str, str], list[Cell]] = defaultdict(list)
        for _ in range(TURNS):
            for operation in targets["few"]:
                for name in sizes:
                    cell = clients.measure(
                        targets[name][operation], connections=CONNECTIONS, seconds=seconds / TURNS, warm=WARM
                    )
                    turns[operation, name].append(cell)
    cells = {
        operation: (Cell.median(turns[operation, "few"]), Cell.median(turns[operation, "many"]))
        for operation in targets["few"]
    }
    return Growth(database, sizes["few"], sizes["many"], cells)


def grown(gate: House, count: int, each: int) -> dict[str, Target]:
    """What is asked of an installation with so many tasks, so many of each caller."""
    task = one(gate)
    fill(gate.database, gate.made[CALLER]["id"], task, count, each)
    gate.run(tallying.__name__)
    pids = gate.web_pids()
    return {name: Target(name, gate.ports, pids, request) for name, request in requests(gate, task).items()}


def one(gate: House) -> str:
    """A task that was sent and cancelled, by the operations themselves: the one that all others are copies of."""
    link = http.client.HTTPConnection("127.0.0.1", gate.ports[0], timeout=30)
    path, token = f"/agents/{PARKED}/", words.bearer(gate.token(CALLER))
    headers = {"Content-Type": "application/json", **dict([token, words.VERSION])}

    def said(method: str, params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        link.request("POST", path, body, headers)
        return json.loads(link.getresponse().read())["result"]

    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "A task among many."}]}
    task = said("SendMessage", {"message": message, "configuration": {"returnImmediately": True}})["task"]["id"]
    said("CancelTask", {"id": task})
    link.close()
    return str(task)


def requests(gate: House, task: str) -> dict[str, Request]:
    path, asks, sees = f"/agents/{PARKED}/", words.bearer(gate.token(CALLER)), words.bearer(gate.token("mara"))
    told = f'"id":"{MARK}","result":'
    return {
        "create": words.send(path, asks, waits=False),
        "get": words.rpc(path, "GetTask", {"id": task}, told, asks),
        "list": words.rpc(path, "ListTasks", {}, told, asks),
        "list over REST": rest("a2a/tasks?limit=50", '"total":', asks),
        "list all over REST": rest("a2a/tasks?limit=50", '"total":', sees),
        "inbox": rest("a2a/inbox?limit=20", '"tasks":', words.bearer(gate.token(PARKED))),
    }


def rest(path: str, expect: str, *headers: tuple[str, str]) -> Request:
    number = ("X-Number", MARK)
    return Request(f"/api/nhi/{path}", "", expect, (*headers, number), "GET")


def fill(database: Database, caller_id: str, task_id: str, count: int, each: int) -> None:
    """Copies of this task, as if one had come every second until now: the first of them this caller's, and as many each
    of callers like it."""
    filler = Filler(database)
    try:
        with filler.transaction():
            name = f"src.name || {filler.digits('n.i')}"
            callers = count // each + 1
            filler.copy("nhi_identity", "id", caller_id, callers, {"id": filler.id(AGENTS), "name": name})
            copy_tasks(filler, task_id, count, each)
    finally:
        filler.close()


def copy_tasks(filler: Filler, task_id: str, count: int, each: int) -> None:
    own = filler.id(TASKS)

    def of_caller(column: str) -> str:
        return f"CASE WHEN n.i <= {each} THEN src.{column} ELSE {filler.id(AGENTS, f'(n.i - 1) / {each}')} END"

    before: Callable[[str], str] = filler.seconds_before
    moments = {name: before(f"src.{name}") for name in ("created_at", "state_at", "completed_at")}
    asked = {name: of_caller(name) for name in ("source_id", "created_by_id")}
    named = {"id": own, "root_id": own, "context_id": "src.context_id || n.i"}
    changes = {**named, "tallied_at": "NULL", **moments, **asked}
    filler.copy("a2a_task", "id", task_id, count, changes)
    for table, space, number in (("a2a_task_event", EVENTS, "seq"), ("a2a_task_message", MESSAGES, "position")):
        key = filler.id(space, f"n.i * {MOST_EVENTS} + src.{number}")
        filler.copy(table, "task_id", task_id, count, {"id": key, "task_id": own, "at": before("src.at")})
