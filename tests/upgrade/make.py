"""Make the stored installation that `test_upgrade` starts again: a database of SQLite and one of PostgreSQL with the
demo, a row of every model, a sealed value of every place and a live token of every kind, and what to expect of them.
It was run at commit e896c74, before the first rename: another run would make the data of a later version.

    .venv/bin/python -m tests.upgrade.make

It works in a copy of the tree at a neutral path, because rows of a log name the programs that ran.
"""

import gzip
import json
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.services import postgresql
from tests.services.house import House, embedded
from tests.services.migrated import ROOT
from tests.upgrade.installation import (
    CARD_KEYS,
    DATA,
    ENVIRON,
    POSTGRESQL,
    SQLITE,
    Answer,
    copy_tracked,
    dump_postgresql,
    dump_sqlite,
    request,
    run_apart,
)

#: Where the installation is made. No path of a developer's machine gets into the files.
PLACE = Path("/tmp/gatehouse-before-upgrade")
TREE = PLACE / "tree"


def main() -> None:
    if ROOT == TREE:
        make_all()
        return
    PLACE.mkdir(mode=0o755)
    try:
        copy_tracked(TREE)
        command = [str(TREE / ".venv" / "bin" / "python"), "-m", "tests.upgrade.make"]
        subprocess.run(command, cwd=TREE, check=True)
        DATA.mkdir(exist_ok=True)
        for file in (TREE / DATA.relative_to(ROOT)).iterdir():
            require_neutral(file)
            shutil.copyfile(file, DATA / file.name)
    finally:
        shutil.rmtree(PLACE)


def make_all() -> None:
    DATA.mkdir(exist_ok=True)
    expected = {SQLITE: make_sqlite(), POSTGRESQL: make_postgresql()}
    (DATA / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


def make_sqlite() -> dict[str, Any]:
    with house_of(PLACE / SQLITE) as house:
        expected = fill(house)
        dump_sqlite(house.data, DATA / f"{SQLITE}.gz")
        return expected


def make_postgresql() -> dict[str, Any]:
    with postgresql.server() as server, house_of(PLACE / POSTGRESQL, DATABASE_URL=server.url()) as house:
        expected = fill(house)
        dump_postgresql(server.url(), DATA / f"{POSTGRESQL}.gz")
        return expected


@contextmanager
def house_of(place: Path, **environ: str) -> Iterator[House]:
    place.mkdir()
    with embedded(place, first=True, **ENVIRON, **environ) as house:
        house.wait_until_ready()
        yield house


def fill(house: House) -> dict[str, Any]:
    """Work with the running installation, stop it, and add what is missing."""
    left = work(house)
    assert house.stop() == 0
    return dict(run_apart(house, "rows", json.dumps(left)))


def work(house: House) -> dict[str, Any]:
    """Call a tool, run an agent, send a task, set up a schedule, and leave a call that waits for an approval."""
    bot = re.findall(r"Token of agent/deploy-bot.*: (nhi_\S+)", house.output)[0]
    agent = re.findall(r"/supervisor/agents/([0-9a-f-]+)/execute", house.output)[0]
    reader = re.findall(r'"target_agent_id": "([0-9a-f-]+)"', house.output)[0]
    mara = json.loads(house.manage("issue_user_token", "mara", "--json").stdout)["token"]
    api = "/api/nhi"

    def ask(method: str, path: str, token: str, body: Any = None, *, status: int, **headers: str) -> Any:
        answer = request(house, method, f"{api}{path}", token=token, body=body, **headers)
        return require(answer, status, f"{method} {path}")

    title = {"parameters": {"title": "Water the plants"}}
    ask("POST", "/mcp/tools/todo__create_todo/call", bot, title, status=200)
    run = {"input": "It rained. The river rose."}
    ask("POST", f"/supervisor/agents/{agent}/execute", bot, run, status=202)
    task = {"target_agent_id": reader, "task_type": "summarise", "input": {"input": "It rained."}}
    ask("POST", "/a2a/tasks", bot, task, status=201, Idempotency_Key="upgrade-1")
    tools = ask("GET", "/mcp/tools", mara, status=200)["tools"]
    tool = next(row for row in tools if row["name"] == "todo__search_todos")
    ask("PATCH", f"/mcp/tools/{tool['id']}", mara, {"requires_approval": True}, status=200)
    waiting = {"parameters": {"query": "plants"}, "context": {"conversation_id": "c-1"}}
    ask("POST", "/mcp/tools/todo__search_todos/call", bot, waiting, status=202)
    schedule: dict[str, Any] = {"name": "upgrade", "agent_id": agent, "cron_expression": "@yearly"}
    schedule["input_parameters"] = {"input": "Sum up the year.", "parameters": {}}
    ask("POST", "/supervisor/schedules", mara, schedule, status=201)
    house.wait_for(
        lambda: not ask("GET", "/supervisor/executions?state=running", mara, status=200)["executions"], 60, "no runs"
    )
    page = ask("GET", "/audit-events?limit=1", mara, status=200)
    card_keys = json.loads(house.get(CARD_KEYS)[1])
    return {"person": mara, "rest_cursor": page["next_cursor"], "card_keys": card_keys}


def require(answer: Answer, status: int, what: str) -> Any:
    assert answer.status == status, f"{what}: {answer}"
    return answer.body


def require_neutral(file: Path) -> None:
    content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    for name in (str(ROOT), str(Path.home()), tempfile.gettempdir() + "/gatehouse-pg"):
        assert name.encode() not in content, f"{file.name} holds {name}"
    host = rb"(?<![-\w+/=])" + re.escape(socket.gethostname().encode()) + rb"(?![-\w+/=])"
    assert not re.search(host, content), f"{file.name} holds the name of this host"


if __name__ == "__main__":
    main()
