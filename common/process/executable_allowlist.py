"""Which programs may run as servers here. To say what a server runs is to say what runs on this machine, so the list is
a file that only those who run the machine write; no page and no call changes it.

Without a list, one thing may run: a script of `examples/`, by itself or by this Python. A Python free to be told what
it runs would be leave to run anything, so nothing may stand before the script, not even `-c` or `-m`, and the script
may be no link to somewhere else. The same holds for whoever lists an interpreter: it is better to list the script
itself, with its `#!` line. Either way what is started is the file that was looked at, by its real name.
"""

import os
import re
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from django.conf import settings

EXAMPLES_DIRECTORY = settings.BASE_DIR / "examples"
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: With these, who sets the environment of a program chooses the code that it runs, or whom it trusts and connects
#: through: loaders and interpreters, what installs packages for them, and where any of them looks for its settings.
#: In capitals; a program may read either.
STEERING_PREFIXES = (
    "LD_", "DYLD_", "MALLOC_", "BASH_", "GIT_", "GATEHOUSE_", "XDG_", "OPENSSL_", "SSL_CERT_", "KRB5_", "PYTHON",
    "PIP_", "PIPX_", "UV_", "PERL", "RUBY", "GEM_", "BUNDLE_", "NODE_", "TS_NODE_", "NPM_", "PNPM_", "YARN_", "BUN_",
    "DENO_", "JAVA_", "_JAVA_", "JDK_", "DOTNET_", "COMPLUS_", "CORECLR_", "NUGET_", "LUA_", "PHP_INI_", "ERL_",
    "CARGO_", "RUSTUP_",
)  # fmt: skip
STEERING_SUFFIXES = ("_PROXY", "_CA_BUNDLE")
STEERING_NAMES = frozenset({
    "PATH", "HOME", "IFS", "ENV", "SHELL", "SHELLOPTS", "BASHOPTS", "PS4", "CDPATH", "CLASSPATH", "PHPRC",
    "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "TZDIR", "LOCALDOMAIN", "RES_OPTIONS", "HOSTALIASES",
    "CURL_HOME", "DOCKER_CONFIG", "GOENV", "GOFLAGS", "GOPATH", "GOPROXY", "GOROOT", "GOTOOLCHAIN", "EDITOR", "VISUAL",
    "PAGER", "BROWSER",
    "KUBECONFIG", "LESSOPEN", "LESSCLOSE", "TAR_OPTIONS", "SSLKEYLOGFILE", "AWS_CONFIG_FILE", "ELECTRON_RUN_AS_NODE",
})  # fmt: skip
#: Begins like one of them, says only which of its settings a program takes, and many want it.
HARMLESS_NAMES = frozenset({"NODE_ENV"})
#: What this installation itself is told by its environment.
INSTALLATION_VARIABLES = frozenset({
    "ALLOWED_HOSTS", "AUDIT_ANCHOR", "BROKER_URL", "DATABASE_URL", "DEBUG", "DJANGO_SETTINGS_MODULE", "EGRESS_ALLOW",
    "EXECUTABLE_ALLOWLIST", "FIELD_KEYS", "GRPC_TRUSTED_PROXIES", "METRICS_TOKEN", "REDIS_URL", "REQUIRE_MFA", "RUN_AS",
    "SECRET_KEY", "SECRET_KEY_FALLBACKS", "SIGNING_KEYS", "TOKEN_PEPPER", "TRUSTED_PROXIES", "TRUSTED_PROXY_NETWORKS",
    "WORKDIR_ALLOWLIST",
})  # fmt: skip
#: By the names of their files, with versions or without.
INTERPRETER_NAME = re.compile(
    r"(?:python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|tclsh|java|dotnet|bash|dash|zsh|ksh|fish|sh|env|busybox|"
    r"npx|uvx|uv|pipx)[0-9.]*"
)
#: Every kind of program that a kernel runs has a zero in so many bytes.
INSPECTED_BYTES = 1024
WRAPPER_HINT = "If the server needs it, list a small program that sets it and then starts the server."


class ExecutableRefused(Exception):
    """This may not be started here: why, as a sentence for admins."""


def find_command_problem(command: str, arguments: Sequence[str] = ()) -> str:
    """Why this may not be started here, as a sentence; empty when it may."""
    try:
        resolve_command(command, arguments)
    except ExecutableRefused as reason:
        return str(reason)
    return ""


def resolve_command(command: str, arguments: Sequence[str] = ()) -> list[str]:
    """The command line by the real names of its files, or `NotExecutable`."""
    for word in (command, *arguments):
        if "\0" in word or "\n" in word:
            raise ExecutableRefused("A command and its arguments are single lines.")
    program = _resolve_program(command)
    if settings.EXECUTABLE_ALLOWLIST is None:
        return [program, *_check_example(program, arguments)]
    allowed = read_allowlist(settings.EXECUTABLE_ALLOWLIST)
    if program not in allowed:
        link = f" {command} is, but it leads there by a link." if command in allowed else ""
        raise ExecutableRefused(
            f"{program} is not in the file that EXECUTABLE_ALLOWLIST names.{_allowlist_hint(program)}{link}"
        )
    return [program, *arguments]


def _allowlist_hint(program: str) -> str:
    if not INTERPRETER_NAME.fullmatch(Path(program).name):
        return " Whoever runs this machine can add it."
    return (
        " It is an interpreter: who may run it may run anything, so it is better not added. Give the path of the "
        "script itself, which begins with #! and is executable (chmod +x), and have whoever runs this machine add that."
    )


def find_variable_problem(name: str) -> str:
    """Why no server may be given this variable, as a sentence; empty when it may."""
    if not VARIABLE_NAME.fullmatch(name):
        return f"{name} is no name for a variable: letters, digits and underscores make one."
    if name in INSTALLATION_VARIABLES:
        return (
            f"{name} may not be set: it is a setting of this installation, and no server is told those. {WRAPPER_HINT}"
        )
    if _can_steer_programs(name.upper()):
        danger = "it can change what code runs, or whom it trusts and connects through"
        return f"{name} may not be set: {danger}. {WRAPPER_HINT}"
    return ""


def _can_steer_programs(name: str) -> bool:
    known = name in STEERING_NAMES or name.startswith(STEERING_PREFIXES) or name.endswith(STEERING_SUFFIXES)
    return known and name not in HARMLESS_NAMES


def read_allowlist(path: Path) -> frozenset[str]:
    """The programs in the file, one a line."""
    try:
        if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ExecutableRefused("The file that EXECUTABLE_ALLOWLIST names can be written by others than its owner.")
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ExecutableRefused("The file that EXECUTABLE_ALLOWLIST names cannot be read.") from error
    return frozenset(_parse_entry(number, line) for number, line in enumerate(lines, 1) if _is_entry_line(line))


def _is_entry_line(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _parse_entry(number: int, line: str) -> str:
    path = line.strip()
    if not path.startswith("/") or os.path.normpath(path) != path:
        raise ExecutableRefused(f"EXECUTABLE_ALLOWLIST, line {number}: write one absolute path, without .. or //.")
    return path


def _resolve_program(command: str) -> str:
    if not command.startswith("/"):
        instead = f"; {command[:60]!r} is none" if command else ""
        raise ExecutableRefused(f"Give the absolute path of a program{instead}.")
    program = os.path.realpath(command)
    try:
        mode = Path(program).stat().st_mode
    except OSError as error:
        raise ExecutableRefused(f"{command} cannot be run: {error.strerror}.") from None
    if not stat.S_ISREG(mode):
        what = "a directory" if stat.S_ISDIR(mode) else "not a file"
        raise ExecutableRefused(f"{command} is {what}: give the path of a program.")
    if not os.access(program, os.X_OK):
        raise ExecutableRefused(
            f"{command} may not be executed: make it executable (chmod +x), or give another program."
        )
    if _lacks_interpreter_line(program):
        raise ExecutableRefused(
            f"{command} is a text without a #! line, so nothing would run it: let its first line name its interpreter, "
            "like #!/usr/bin/env python3."
        )
    return program


def _lacks_interpreter_line(program: str) -> bool:
    """Whether it is a text that does not say what runs it. Nothing is said of what may be executed but not read."""
    try:
        with Path(program).open("rb") as file:
            begins = file.read(INSPECTED_BYTES)
    except OSError:
        return False
    return not begins.startswith(b"#!") and b"\0" not in begins


def _check_example(program: str, arguments: Sequence[str]) -> list[str]:
    if _is_example_script(program):
        return [*arguments]
    if program != os.path.realpath(sys.executable):
        raise ExecutableRefused(
            f"EXECUTABLE_ALLOWLIST is not set, so only what lies in {EXAMPLES_DIRECTORY} and "
            f"{EXAMPLES_DIRECTORY / 'agents'} may run: give the path of a script there. To run others, put their "
            "paths in a file, let EXECUTABLE_ALLOWLIST name that file, and start Gatehouse again; list scripts rather "
            "than interpreters."
        )
    script = os.path.realpath(arguments[0]) if arguments and arguments[0].startswith("/") else ""
    if not (_is_example_script(script) and script.endswith(".py")):
        raise ExecutableRefused(f"The first argument must be the absolute path of a script in {EXAMPLES_DIRECTORY}.")
    return [script, *arguments[1:]]


def _is_example_script(script: str) -> bool:
    """One of ours by its real name, which leads nowhere else."""
    examples = Path(os.path.realpath(EXAMPLES_DIRECTORY))
    return Path(script).parent in {examples, examples / "agents"} and Path(script).is_file()
