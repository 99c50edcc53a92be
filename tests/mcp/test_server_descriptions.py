"""What is wrong with a server is said all at once, each with its place; secrets are put where they belong."""

import sys
from typing import Any

import pytest

from common.errors import InvalidInput
from mcp.models import Server
from mcp.servers import lifecycle
from tests.nhi import cast

pytestmark = [pytest.mark.capability("MCP-01"), pytest.mark.django_db]
HTTP = {"transport": "http", "base_url": "https://mcp.example.org/mcp"}
STDIO = {"transport": "stdio", "command": sys.executable, "args": ["examples/todo_server.py"]}


def problems(name: str = "peer", secrets: dict[str, str] | None = None, **given: Any) -> dict[str, str]:
    with pytest.raises(InvalidInput) as raised:
        lifecycle.create(
            actor=cast.admin(),
            name=name,
            owner=cast.user("olga", "operator"),
            configuration=given,
            secret_values=secrets,
            connect_now=False,
        )
    assert not Server.objects.exists()
    return {one.field: one.message for one in raised.value.fields}


def test_every_problem_is_said_at_once() -> None:
    found = problems(
        "Tools!", {"1st": "x"}, transport="http", base_url="ftp://x", timeout=0, schema_version="one", command="sh",
        headers={"Host": "x", "X-A": "${NOPE}"}, capabilities=["a" * 200],
    )  # fmt: skip
    assert set(found) == {
        "name", "secrets.1st", "base_url", "timeout", "schema_version", "command", "headers.Host", "headers.X-A",
        "capabilities",
    }  # fmt: skip
    assert found["headers.X-A"] == "${NOPE} names no secret of this server. Add it to secrets."


@pytest.mark.parametrize("name", ["tools", "servers", "calls", "-x", "a_b", "a" * 64, "", "Ä"])
def test_a_name_is_a_path_of_its_own(name: str) -> None:
    assert set(problems(name, **HTTP)) == {"name"}


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        ("headers", "Authorization", "Bearer abcdefgh12345678"),
        ("headers", "X-Api-Key", "plainly-here"),
        ("headers", "X-Note", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"),
        ("env", "GITHUB_TOKEN", "plainly-here"),
        ("env", "DATABASE", "postgres://me:secret@db/x"),
    ],
)
def test_a_secret_in_plain_text_is_refused(where: str, name: str, value: str) -> None:
    given = HTTP if where == "headers" else STDIO
    found = problems(**given, **{where: {name: value}})
    assert "put it into secrets" in found[f"{where}.{name}"]


def test_a_secret_is_named_where_it_is_used() -> None:
    made = lifecycle.create(
        actor=cast.admin(),
        name="peer",
        owner=cast.user("olga", "operator"),
        connect_now=False,
        configuration={**HTTP, "headers": {"Authorization": "Bearer ${TOKEN}"}},
        secret_values={"TOKEN": "plainly-here"},
    )
    assert made.headers == {"Authorization": "Bearer ${TOKEN}"}
    assert "plainly-here" not in made.secrets.get().sealed


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PATH", "PYTHONPATH", "GIT_SSH_COMMAND", "SECRET_KEY", "DATABASE_URL"])
def test_a_process_is_not_steered_by_its_environment(name: str) -> None:
    assert f"env.{name}" in problems(**STDIO, env={name: "x"})


def test_arguments_hold_no_secrets() -> None:
    found = problems(
        **{**STDIO, "args": ["examples/todo_server.py", "--key=${KEY}", "sk-proj-abcdefghijklmnopqrst0123"]}
    )
    assert {"args[1]", "args[2]"} <= set(found)
