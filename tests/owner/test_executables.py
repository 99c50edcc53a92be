"""Only what the list names is started; without a list, only an example, by this Python and with nothing before it."""

import os
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from common.process import executable_allowlist
from config import environment as env
from mcp.stdio_host.environment import INHERITED_VARIABLES
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


@pytest.mark.parametrize("begins", [b"print('hello')\n", b"", "\ufeff#!/bin/sh\n".encode()])
def test_a_text_that_names_no_interpreter_is_refused(allowed: Path, program: Path, begins: bytes) -> None:
    program.write_bytes(begins)
    said = executable_allowlist.find_command_problem(str(program))
    assert said.startswith(f"{program} is a text without a #! line")


def test_a_program_of_the_machine_needs_no_such_line(allowed: Path, program: Path) -> None:
    program.write_bytes(Path("/bin/true").read_bytes()[:2000])
    assert executable_allowlist.find_command_problem(str(program)) == ""


def test_without_a_list_an_example_may_run() -> None:
    assert executable_allowlist.find_command_problem(PYTHON, [TODO, "--store", "x"]) == ""
    assert executable_allowlist.resolve_command(PYTHON, [TODO]) == [os.path.realpath(PYTHON), TODO]


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
    assert "must be the absolute path of a script" in executable_allowlist.find_command_problem(PYTHON, arguments)


def test_a_link_among_the_examples_leads_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere.py").write_text("")
    examples = tmp_path / "examples"
    examples.mkdir()
    (examples / "link.py").symlink_to(tmp_path / "elsewhere.py")
    monkeypatch.setattr(executable_allowlist, "EXAMPLES_DIRECTORY", examples)
    assert executable_allowlist.find_command_problem(PYTHON, [str(examples / "link.py")]) != ""


def test_any_script_among_the_examples_runs_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "examples" / "agents" / "count.sh"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\nwc -w\n")
    script.chmod(0o700)
    monkeypatch.setattr(executable_allowlist, "EXAMPLES_DIRECTORY", tmp_path / "examples")
    assert executable_allowlist.find_command_problem(str(script)) == ""
    assert executable_allowlist.find_command_problem(PYTHON, [str(script)]) != "", "it is no script of Python's"


@pytest.mark.parametrize("command", ["/bin/sh", "sh", "./server", "", "/no/such/program", str(ROOT), "/bin/sh\0x"])
def test_without_a_list_no_other_program_may(command: str) -> None:
    assert executable_allowlist.find_command_problem(command, [TODO]) != ""


def test_each_program_that_cannot_be_run_says_why_and_what_to_do(program: Path) -> None:
    program.chmod(0o600)
    examples = executable_allowlist.EXAMPLES_DIRECTORY
    for command, said in (
        ("", "Give the absolute path of a program."),
        ("server", "Give the absolute path of a program; 'server' is none."),
        (f"{program}-gone", "cannot be run: No such file or directory."),
        (str(program.parent), "is a directory: give the path of a program."),
        (str(program), "make it executable (chmod +x)"),
        (
            "/bin/sh",
            f"only what lies in {examples} and {examples}/agents may run",
        ),
        ("/bin/sh", "put their paths in a file, let EXECUTABLE_ALLOWLIST name that file"),
    ):
        assert said in executable_allowlist.find_command_problem(command)


def test_a_listed_program_may_run_by_any_name_that_leads_to_it(allowed: Path, program: Path) -> None:
    assert executable_allowlist.resolve_command(str(program), ["--any", "argument"]) == [
        str(program),
        "--any",
        "argument",
    ]
    link = program.with_name("link")
    link.symlink_to(program)
    assert executable_allowlist.resolve_command(str(link)) == [str(program)], "what is started is what was looked at"


def test_what_is_not_listed_may_not(allowed: Path, program: Path, tmp_path: Path) -> None:
    assert "is not in the file" in executable_allowlist.find_command_problem(PYTHON, [TODO])
    program.unlink()
    program.symlink_to("/bin/sh")
    assert "leads there by a link" in executable_allowlist.find_command_problem(str(program)), (
        "nor what was put in its place"
    )


@pytest.mark.parametrize("entry", ["server", "/bin/../bin/sh", "/usr/bin/no\tsuch/../x"])
def test_an_odd_line_is_named_and_nothing_runs(allowed: Path, program: Path, entry: str) -> None:
    allowed.write_text(f"{program}\n{entry}\n")
    assert "line 2" in executable_allowlist.find_command_problem(str(program))


def test_a_list_that_others_can_write_is_not_believed(allowed: Path, program: Path) -> None:
    allowed.chmod(0o622)
    assert "can be written by others" in executable_allowlist.find_command_problem(str(program))
    allowed.unlink()
    assert "cannot be read" in executable_allowlist.find_command_problem(str(program))


def test_a_list_that_is_not_there_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXECUTABLE_ALLOWLIST", "/no/such/file")
    with pytest.raises(ImproperlyConfigured, match="EXECUTABLE_ALLOWLIST"):
        env.file("EXECUTABLE_ALLOWLIST")


@pytest.mark.parametrize("name", [
    "GITHUB_TOKEN", "API_KEY", "OPENAI_API_KEY", "PERPLEXITY_API_KEY", "GITLAB_URL", "GOOGLE_CLOUD_PROJECT",
    "PIPEDRIVE_KEY", "AWS_REGION", "TZ", "LANG", "NODE_ENV", "PROXY_TOKEN", "HOME_ASSISTANT_URL", "PATHS", "_x",
    "ENVIRONMENT",
])  # fmt: skip
def test_variables_a_server_may_be_given(name: str) -> None:
    assert executable_allowlist.find_variable_problem(name) == ""


@pytest.mark.parametrize("name", ["", "A=B", "a b", "A\n", "1A", "Ä"])
def test_names_that_are_none(name: str) -> None:
    assert "is no name for a variable" in executable_allowlist.find_variable_problem(name)


@pytest.mark.parametrize("name", sorted(executable_allowlist.INSTALLATION_VARIABLES))
def test_variables_that_are_ours(name: str) -> None:
    assert "is a setting of this installation" in executable_allowlist.find_variable_problem(name)


@pytest.mark.parametrize("name", [
    "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "GLIBC_TUNABLES", "MALLOC_CONF", "GCONV_PATH", "LOCPATH",
    "PYTHONPATH", "PYTHONSTARTUP", "PERL5LIB", "PERLLIB", "RUBYOPT", "RUBYLIB", "LUA_PATH", "LUA_INIT_5_4", "CLASSPATH",
    "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_HOME", "DOTNET_STARTUP_HOOKS", "COMPlus_Profiler",
    "CORECLR_PROFILER_PATH", "NODE_OPTIONS", "NODE_PATH", "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED",
    "npm_config_registry", "NPM_CONFIG_USERCONFIG", "UV_INDEX_URL", "PIP_INDEX_URL", "pip_config_file", "HOME", "home",
    "XDG_CONFIG_HOME", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "OPENSSL_CONF", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HTTP_PROXY", "https_proxy", "All_Proxy", "no_proxy", "HOSTALIASES",
    "LOCALDOMAIN", "RES_OPTIONS", "PATH", "Path", "BASH_ENV", "ENV", "IFS", "SHELLOPTS", "GATEHOUSE_DATA",
])  # fmt: skip
def test_variables_that_steer_what_runs(name: str) -> None:
    said = executable_allowlist.find_variable_problem(name)
    assert said.startswith(f"{name} may not be set: it can change what code runs")
    assert "list a small program that sets it" in said


def test_what_is_set_for_every_server_cannot_be_set_against_it() -> None:
    """Our own words to it, where they lead to code or settings; a place and a language do not."""
    free = {name for name in INHERITED_VARIABLES if not executable_allowlist.find_variable_problem(name)}
    assert free == {"LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "TERM", "TMPDIR", "TZ", "USER"}


@pytest.mark.parametrize("name", ["python3.11", "bash", "node", "npx", "sh", "perl5"])
def test_an_interpreter_that_is_not_listed_is_refused_with_what_to_do_instead(
    allowed: Path, program: Path, name: str
) -> None:
    interpreter = program.rename(program.with_name(name))
    said = executable_allowlist.find_command_problem(str(interpreter), ["-c", "1"])
    assert "It is an interpreter" in said
    assert "the script itself" in said
    plain = interpreter.rename(program.with_name(f"{name}-tool"))
    assert executable_allowlist.find_command_problem(str(plain)).endswith("Whoever runs this machine can add it.")
