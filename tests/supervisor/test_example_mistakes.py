"""What people ordinarily do wrong with an example ends it with one line that says so and a fitting code."""

import fcntl
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.services.waiting import wait_for
from tests.supervisor.examples import AGENTS, house, run

pytestmark = pytest.mark.capability("SUP-02")
#: Those that call Gatehouse, and what each is started with.
CALLERS = {
    "todo_clerk.py": ["Water"],
    "ask_another.py": ["--to", "triage-bot"],
    "inbox_worker.py": ["--once"],
}
caller = pytest.mark.parametrize("name", CALLERS)
REFUSAL = {"error_code": "Unauthorized", "message": "No grant covers this.", "details": {}, "request_id": "r"}
NO_TEXT = "What came in is no text in UTF-8.\n"


def called(name: str, cwd: Path, **environment: str) -> tuple[int, str]:
    """Its exit code and what it said, which is one line of errors."""
    code, out, said = run(name, *CALLERS[name], said="Notes.", cwd=cwd, **environment)
    assert (out, said.count("\n"), said[-1:]) == ("", 1, "\n")
    return code, said


@caller
@pytest.mark.parametrize("given", [{}, {"GATEHOUSE_URL": "http://127.0.0.1:9"}, {"GATEHOUSE_TOKEN": "t"}])
def test_without_its_environment_it_says_what_to_set(name: str, given: dict[str, str], tmp_path: Path) -> None:
    code, said = called(name, tmp_path, **given)
    assert (code, "GATEHOUSE_URL" in said, "GATEHOUSE_TOKEN" in said) == (1, True, True)


@caller
def test_without_a_house_it_ends_with_the_code_for_what_may_pass(name: str, tmp_path: Path) -> None:
    with house(200, {}) as (url, _):
        pass
    code, said = called(name, tmp_path, GATEHOUSE_URL=url, GATEHOUSE_TOKEN="t")
    assert (code, said.startswith("Gatehouse gave no answer: ")) == (75, True)


@caller
@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("127.0.0.1:8000", "has to begin with http:// or https://."),
        ("gatehouse", "has to begin with http:// or https://."),
        ("http://127.0.0.1:port", "leads to no Gatehouse: nonnumeric port: 'port'"),
    ],
)
def test_an_address_that_is_none_is_named(name: str, url: str, why: str, tmp_path: Path) -> None:
    assert called(name, tmp_path, GATEHOUSE_URL=url, GATEHOUSE_TOKEN="t") == (1, f"GATEHOUSE_URL {why}\n")


@caller
def test_what_answers_in_its_place_is_no_house(name: str, tmp_path: Path) -> None:
    with house(200, b"<html>Welcome</html>") as (url, _):
        code, said = called(name, tmp_path, GATEHOUSE_URL=url, GATEHOUSE_TOKEN="t")
    assert (code, said.startswith("GATEHOUSE_URL leads to no Gatehouse: ")) == (1, True)


@caller
@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_is_told_in_gatehouses_words(name: str, status: int, tmp_path: Path) -> None:
    for reply, words in ((REFUSAL, "No grant covers this.\n"), (b"<html>\n</html>", f"Gatehouse answered {status}.\n")):
        with house(status, reply) as (url, calls):
            code, said = called(name, tmp_path, GATEHOUSE_URL=url, GATEHOUSE_TOKEN="t")
        assert (code, said.endswith(words), len(calls)) == (1, True, 1)


@pytest.mark.capability("A2A-07")
def test_a_worker_that_stays_says_once_that_it_gets_no_answer_and_asks_again(tmp_path: Path) -> None:
    with (
        house(503, {"message": "The database is away."}) as (url, calls),
        started("inbox_worker.py", cwd=tmp_path, GATEHOUSE_URL=url, GATEHOUSE_TOKEN="t") as worker,
    ):
        wait_for(lambda: len(calls) > 1, 20, "asked again")
        worker.send_signal(signal.SIGINT)
        _, said = worker.communicate(timeout=30)
    assert worker.returncode == 130
    assert said.decode() == "Gatehouse answered 503: The database is away. (asked again every 2 s)\n"


@pytest.mark.capability("A2A-03")
def test_the_kits_agent_says_why_it_was_refused(tmp_path: Path) -> None:
    with house(401, REFUSAL) as (url, _):
        command = [sys.executable, str(AGENTS / "tck.py")]
        given = {"GATEHOUSE_URL": url, "GATEHOUSE_TOKEN": "t"}
        done = subprocess.run(command, env=given, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, b"Gatehouse answered 401: No grant covers this.\n")


@pytest.mark.parametrize("name", ["summarise.py", "companion.py", "ask_back.py", "ask_another.py"])
def test_input_that_is_no_text_is_refused(name: str, tmp_path: Path) -> None:
    arguments = CALLERS.get(name, [])
    with house(200, {"id": "1", "agents": [{"name": "triage-bot", "agent_id": "2"}]}) as (url, _):
        # Where people have set a language: there bytes that are no text are an error.
        command = [sys.executable, str(AGENTS / name), *arguments]
        given = {"GATEHOUSE_URL": url, "GATEHOUSE_TOKEN": "t", "PYTHONIOENCODING": "utf-8:strict"}
        done = subprocess.run(
            command, input=b"Caf\xe9\n", env=given, cwd=tmp_path, capture_output=True, timeout=60, check=False
        )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", NO_TEXT)


def test_calculator_answers_a_line_that_is_no_text_and_goes_on(tmp_path: Path) -> None:
    code, out, said = run("calculator.py", said=b"Caf\xe9\n[]\n", cwd=tmp_path)
    assert (code, [line.count("error") for line in out.splitlines()], said) == (0, [1, 1], "")


def test_ask_back_names_a_conversation_that_it_cannot_read(tmp_path: Path) -> None:
    file = tmp_path / "conversation.json"
    for kept in (None, "", "[1]", '[{"role": "ROLE_USER"}]'):
        if kept is not None:
            file.write_text(kept, encoding="utf-8")
        code, out, said = run("ask_back.py", cwd=tmp_path, GATEHOUSE_CONVERSATION=str(file))
        assert (code, out, said.count("\n")) == (1, "", 1), said
        assert said.startswith("GATEHOUSE_CONVERSATION names no conversation that can be read: ")
    file.write_text("[]", encoding="utf-8")
    said = run("ask_back.py", cwd=tmp_path, GATEHOUSE_CONVERSATION=str(file))[2]
    assert said == "There is no place to travel to.\n"


def test_report_says_what_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Water the plants.", encoding="utf-8")
    (tmp_path / "taken").mkdir()
    assert run("report.py", "--output", "taken", "notes.txt", cwd=tmp_path) == (
        1,
        "",
        "taken cannot be written: Is a directory\n",
    )


@pytest.mark.parametrize("name", ["summarise.py", "companion.py", "ask_back.py", "calculator.py"])
def test_ctrl_c_ends_what_reads(name: str, tmp_path: Path) -> None:
    with started(name, cwd=tmp_path) as process:
        assert process.stdin is not None
        process.stdin.write(b"1")
        wait_for(lambda: waits_for_more(process), 20, "reading")
        process.send_signal(signal.SIGINT)
        assert (process.wait(30), process.stderr and process.stderr.read()) == (130, b"")


def test_ctrl_c_ends_what_waits_for_an_answer(tmp_path: Path) -> None:
    reply = {"id": "1", "agents": [{"name": "triage-bot", "agent_id": "2"}], "task_id": "3", "state": "running"}
    with house(200, reply) as (url, calls):
        given = {"GATEHOUSE_URL": url, "GATEHOUSE_TOKEN": "t"}
        with started("ask_another.py", *CALLERS["ask_another.py"], cwd=tmp_path, **given) as process:
            assert process.stdin is not None
            process.stdin.close()
            wait_for(lambda: len(calls) > 3, 20, "waited for the task")
            process.send_signal(signal.SIGINT)
            assert (process.wait(30), process.stderr and process.stderr.read()) == (130, b"")


def waits_for_more(process: "subprocess.Popen[bytes]") -> bool:
    """It has taken what was written, and sleeps."""
    assert process.stdin is not None
    left = struct.unpack("i", fcntl.ioctl(process.stdin, termios.FIONREAD, b"\0" * 4))[0]
    return left == 0 and psutil.Process(process.pid).status() == psutil.STATUS_SLEEPING


@contextmanager
def started(name: str, *arguments: str, cwd: Path, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Whatever whoever runs the tests does about Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    try:
        command = [sys.executable, "-I", str(AGENTS / name), *arguments]
        process = subprocess.Popen(command, cwd=cwd, env=environment, bufsize=0, **pipes)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        try:
            yield process
        finally:
            process.kill()
