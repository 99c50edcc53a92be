"""The example agents do what they show, as plain processes: no house is needed to run one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor.examples import AGENTS, house, run

pytestmark = pytest.mark.capability("SUP-02")


def test_each_can_be_started_by_its_path() -> None:
    agents = sorted(AGENTS.glob("*.py"))
    assert len(agents) == 9
    assert all(os.access(agent, os.X_OK) for agent in agents)
    assert {agent.read_text(encoding="utf-8").splitlines()[0] for agent in agents} == {"#!/usr/bin/env python3"}


def test_summarise_reads_its_input_and_says_how_it_begins(tmp_path: Path) -> None:
    code, out, _ = run("summarise.py", said="Plants need\nwater. So do people.\n", cwd=tmp_path)
    assert (code, out) == (0, "Lines: 2\nWords: 6\nIt begins: Plants need water.\n")
    assert run("summarise.py", cwd=tmp_path) == (1, "", "There is no text to summarise.\n")


def test_ask_back_asks_until_it_knows_enough(tmp_path: Path) -> None:
    assert run("ask_back.py", said="Oslo\n", cwd=tmp_path) == (79, "For how many days do you go to Oslo?\n", "")
    file = tmp_path / "conversation.json"
    said = [("USER", "Oslo"), ("AGENT", "For how many days do you go to Oslo?"), ("USER", "two"), ("USER", "2 days")]
    messages = [{"role": f"ROLE_{role}", "parts": [{"text": text}]} for role, text in said]
    for count, code, answer in ((3, 79, "I need a number of days"), (4, 0, "For Oslo: 3 shirts, 3 pairs of socks")):
        file.write_text(json.dumps(messages[:count]), encoding="utf-8")
        done = run("ask_back.py", cwd=tmp_path, GATEHOUSE_CONVERSATION=str(file))
        assert (done[0], done[1].startswith(answer)) == (code, True)
    assert run("ask_back.py", cwd=tmp_path) == (1, "", "There is no place to travel to.\n")


def test_report_reads_a_file_and_writes_a_file(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Water the plants.\nwater, water!\n", encoding="utf-8")
    assert run("report.py", "--output", "report.txt", "notes.txt", cwd=tmp_path) == (0, "", "")
    report = (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert "Words: 5, 3 of them different\n" in report
    assert "Most frequent: water (3), the (1), plants (1)\n" in report


@pytest.mark.parametrize("name", ["../report.txt", "/tmp/report.txt", "..", ""])
def test_report_writes_nowhere_else(name: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Water the plants.", encoding="utf-8")
    code, _, complaint = run("report.py", "--output", name, "notes.txt", cwd=tmp_path)
    assert (code, "takes a name without a directory" in complaint) == (2, True)


def test_report_says_which_file_it_misses(tmp_path: Path) -> None:
    code, _, complaint = run("report.py", "notes.txt", cwd=tmp_path)
    assert (code, complaint) == (1, "notes.txt cannot be read: No such file or directory\n")


CALCULATIONS: list[tuple[str, Any]] = [
    ("2 * (n + 4)", 14),
    ("-7 // 2 + 0.5", -3.5),
    ("1 / 0", "This has no result: division by zero."),
    ("1e308 * 10", "This has no result: it is too large."),
    ("9 ** 9 ** 9", "Use numbers, + - * / // %"),
    ("__import__('os').getpid()", "Use numbers, + - * / // %"),
    ("True + 1", "Use numbers, + - * / // %"),
    ("unknown + 1", "Use numbers, + - * / // %"),
    ("2 +", "This is no expression"),
    ("(" * 200, "This is no expression"),
    ("-" * 199 + "1", -1),
    ("1" * 201, "at most 200 characters"),
]


def test_calculator_answers_each_request_in_its_turn(tmp_path: Path) -> None:
    asked = [
        {"jsonrpc": "2.0", "id": at, "method": "execute", "params": {"input": text, "parameters": {"n": 3}}}
        for at, (text, _) in enumerate(CALCULATIONS)
    ]
    code, out, _ = run("calculator.py", said="\n".join(map(json.dumps, asked)), cwd=tmp_path)
    replies = [json.loads(line) for line in out.splitlines()]
    assert (code, [reply["id"] for reply in replies]) == (0, list(range(len(CALCULATIONS))))
    for reply, (text, expected) in zip(replies, CALCULATIONS, strict=True):
        if isinstance(expected, str):
            assert expected in reply["error"]["message"], text
        else:
            assert reply["result"] == expected, text


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("no json", -32700),
        pytest.param("[" * 100_000, -32700, id="nested too deep"),
        ("[1]", -32600),
        ('{"id": 1, "method": "execute"}', -32600),
        ('{"jsonrpc": "2.0", "id": 1, "method": "stop"}', -32601),
        ('{"jsonrpc": "2.0", "id": 1, "method": "execute", "params": [1]}', -32602),
    ],
)
def test_calculator_answers_what_is_no_request(line: str, code: int, tmp_path: Path) -> None:
    _, out, _ = run("calculator.py", said=line, cwd=tmp_path)
    assert json.loads(out)["error"]["code"] == code


def test_calculator_is_silent_where_no_answer_is_wanted(tmp_path: Path) -> None:
    told = '{"jsonrpc": "2.0", "method": "execute", "params": {"input": "1"}}'
    assert run("calculator.py", said=told, cwd=tmp_path) == (0, "", "")


def test_companion_answers_every_line_before_the_next_and_remembers(tmp_path: Path) -> None:
    talk = [
        ("I have a cat", "I keep this as number 1."),
        ("Its name is Ada", "I keep this as number 2."),
        ("echo  so it is", "so it is"),
        ("recall 1", "I have a cat"),
        ("recall 3", "I know the numbers 1 to 2."),
        ("count", "You told me 2 things."),
        ("bye", "Goodbye."),
    ]
    command = [sys.executable, "-I", str(AGENTS / "companion.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path, text=True) as process:
        assert process.stdin and process.stdout
        for said, answer in talk:
            process.stdin.write(f"{said}\n")
            process.stdin.flush()
            assert process.stdout.readline().strip() == answer
        assert (process.wait(60), process.stdout.read()) == (0, "")


RESULT = {"call_id": "c", "latency_ms": 4, "result": {"content": [{"type": "text", "text": "Added 1: Water"}]}}
REFUSAL = {"error_code": "Unauthorized", "message": "No grant covers this tool.", "details": {}, "request_id": "r"}


@pytest.mark.parametrize(
    ("status", "reply", "expected"),
    [
        (200, RESULT, (0, "Added 1: Water\n", "")),
        (403, REFUSAL, (1, "", "No grant covers this tool.\n")),
        (502, "a proxy's own words", (1, "", "Gatehouse answered 502.\n")),
        (
            202,
            {"call_id": "c7", "status": "pending_approval"},
            (1, "", "A person has to allow this first: call c7 waits for approval.\n"),
        ),
    ],
)
def test_todo_clerk_calls_its_tool_and_says_what_came_of_it(
    status: int, reply: Any, expected: tuple[int, str, str], tmp_path: Path
) -> None:
    with house(status, reply) as (url, calls):
        given = {"GATEHOUSE_URL": url, "GATEHOUSE_TOKEN": "nhi_tok_test"}
        assert run("todo_clerk.py", "--water", "the plants", cwd=tmp_path, **given) == expected
    path = "/api/nhi/mcp/tools/todo__create_todo/call"
    assert calls == [(path, "Bearer nhi_tok_test", {"parameters": {"title": "--water the plants"}})]


def test_todo_clerk_needs_a_house(tmp_path: Path) -> None:
    code, _, complaint = run("todo_clerk.py", "Water", cwd=tmp_path)
    assert (code, complaint) == (
        1,
        "GATEHOUSE_URL and GATEHOUSE_TOKEN are not set: let Gatehouse start this agent.\n",
    )
    with house(200, RESULT) as (url, _calls):
        pass
    code, _, complaint = run("todo_clerk.py", "Water", cwd=tmp_path, GATEHOUSE_URL=url, GATEHOUSE_TOKEN="t")
    assert (code, complaint.startswith("Gatehouse gave no answer: ")) == (75, True)
