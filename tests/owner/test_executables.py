"""Only what the list names is started; without a list, only an example, by this Python and with nothing before it."""

import os
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from config import environment as env
from mcp import executables
from tests.services.house import ROOT

pytestmark = pytest.mark.capability("MCP-03", "MCP-15")

PYTHON = sys.executable
TODO = str(ROOT / "examples" / "todo_server.py")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = Path(os.path.realpath(tmp_path)) / "server"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o700)
    return path


@pytest.fixture
def allowed(tmp_path: Path, program: Path, settings: Settings) -> Path:
    path = tmp_path / "executables"
    path.write_text(f"# what may run here\n\n{program}\n")
    path.chmod(0o600)
    settings.EXECUTABLE_ALLOWLIST = path
    return path


def test_without_a_list_an_example_may_run() -> None:
    assert executables.problem(PYTHON, [TODO, "--store", "x"]) == ""
    assert executables.resolve(PYTHON, [TODO]) == [os.path.realpath(PYTHON), TODO]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-c", "import os"],
        ["-m", "http.server"],
        ["-i", TODO],
        ["examples/todo_server.py"],
        [f"{ROOT}/examples/../manage.py"],
        [f"{ROOT}/examples/no_such.py"],
        [f"{ROOT}/examples"],
        [str(ROOT / "manage.py"), "shell"],
    ],
)
def test_this_python_runs_nothing_else(arguments: list[str]) -> None:
    assert "must be the absolute path of a script" in executables.problem(PYTHON, arguments)


def test_a_link_among_the_examples_leads_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere.py").write_text("")
    examples = tmp_path / "examples"
    examples.mkdir()
    (examples / "link.py").symlink_to(tmp_path / "elsewhere.py")
    monkeypatch.setattr(executables, "EXAMPLES", examples)
    assert executables.problem(PYTHON, [str(examples / "link.py")]) != ""


@pytest.mark.parametrize("command", ["/bin/sh", "sh", "./server", "", "/no/such/program", str(ROOT), "/bin/sh\0x"])
def test_without_a_list_no_other_program_may(command: str) -> None:
    assert executables.problem(command, [TODO]) != ""


def test_a_listed_program_may_run_by_any_name_that_leads_to_it(allowed: Path, program: Path) -> None:
    assert executables.resolve(str(program), ["--any", "argument"]) == [str(program), "--any", "argument"]
    link = program.with_name("link")
    link.symlink_to(program)
    assert executables.resolve(str(link)) == [str(program)], "what is started is what was looked at"


def test_what_is_not_listed_may_not(allowed: Path, program: Path, tmp_path: Path) -> None:
    assert "is not in the file" in executables.problem(PYTHON, [TODO])
    program.unlink()
    program.symlink_to("/bin/sh")
    assert "leads there by a link" in executables.problem(str(program)), "nor what was put in its place"


@pytest.mark.parametrize("entry", ["server", "/bin/../bin/sh", "/usr/bin/no\tsuch/../x"])
def test_an_odd_line_is_named_and_nothing_runs(allowed: Path, program: Path, entry: str) -> None:
    allowed.write_text(f"{program}\n{entry}\n")
    assert "line 2" in executables.problem(str(program))


def test_a_list_that_others_can_write_is_not_believed(allowed: Path, program: Path) -> None:
    allowed.chmod(0o622)
    assert "can be written by others" in executables.problem(str(program))
    allowed.unlink()
    assert "cannot be read" in executables.problem(str(program))


def test_a_list_that_is_not_there_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXECUTABLE_ALLOWLIST", "/no/such/file")
    with pytest.raises(ImproperlyConfigured, match="EXECUTABLE_ALLOWLIST"):
        env.file("EXECUTABLE_ALLOWLIST")


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "API_KEY", "HOME", "_x", "ENVIRONMENT"])
def test_variables_a_server_may_be_given(name: str) -> None:
    assert executables.environment_problem(name) == ""


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "PYTHONPATH", "PATH", "NODE_OPTIONS", "GIT_SSH_COMMAND", "BASH_ENV", "SECRET_KEY",
             "DATABASE_URL", "GATEHOUSE_DATA", "", "A=B", "a b", "A\n"]
)  # fmt: skip
def test_variables_that_steer_or_are_ours(name: str) -> None:
    assert executables.environment_problem(name) != ""
