"""Which programs and environment variables may be used for child processes.

The choice of a server's program decides what runs on this machine. So the allowlist is a file that only operators of
the machine write; no page and no API call changes it.

Without an allowlist, only scripts of `examples/` may run, directly or with this Python. A Python with free arguments
could run anything: so no argument may precede the script, not even `-c` or `-m`, and the script may not be a link to
another place. An interpreter in the allowlist has the same risk: it is better to list the script, with its `#!` line.
In both cases the started file is the checked file, by its real path.
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
#: Variables that can change which code a program runs, whom it trusts or which proxy it uses: those of loaders,
#: interpreters and package installers, and paths of configuration files. In upper case; programs may read either case.
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
#: Exceptions from the prefixes: only selects a program's settings, and is in wide use.
HARMLESS_NAMES = frozenset({"NODE_ENV"})
#: The environment variables that configure this installation.
INSTALLATION_VARIABLES = frozenset({
    "ALLOWED_HOSTS", "AUDIT_ANCHOR", "BROKER_URL", "DATABASE_URL", "DEBUG", "DJANGO_SETTINGS_MODULE", "EGRESS_ALLOW",
    "EXECUTABLE_ALLOWLIST", "FIELD_KEYS", "GRPC_TRUSTED_PROXIES", "METRICS_TOKEN", "REDIS_URL", "REQUIRE_MFA", "RUN_AS",
    "SECRET_KEY", "SECRET_KEY_FALLBACKS", "SIGNING_KEYS", "TOKEN_PEPPER", "TRUSTED_PROXIES", "TRUSTED_PROXY_NETWORKS",
    "WORKDIR_ALLOWLIST",
})  # fmt: skip
#: File names of interpreters, with or without a version.
INTERPRETER_NAME = re.compile(
    r"(?:python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|tclsh|java|dotnet|bash|dash|zsh|ksh|fish|sh|env|busybox|"
    r"npx|uvx|uv|pipx)[0-9.]*"
)
#: Every binary format that a kernel executes has a zero byte within this many bytes.
INSPECTED_BYTES = 1024
WRAPPER_HINT = "If the server needs it, list a small program that sets it and then starts the server."


class ExecutableRefused(Exception):
    """The command may not be started here. The message is a sentence for admins."""


def find_command_problem(command: str, arguments: Sequence[str] = ()) -> str:
    """Why the command may not be started here, as a sentence; empty if it may be started."""
    try:
        resolve_command(command, arguments)
    except ExecutableRefused as reason:
        return str(reason)
    return ""


def resolve_command(command: str, arguments: Sequence[str] = ()) -> list[str]:
    """Return the command line with the real paths of its files, or raise ExecutableRefused."""
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
    """Why a server may not have this environment variable, as a sentence; empty if it may."""
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
    is_steering = name in STEERING_NAMES or name.startswith(STEERING_PREFIXES) or name.endswith(STEERING_SUFFIXES)
    return is_steering and name not in HARMLESS_NAMES


def read_allowlist(path: Path) -> frozenset[str]:
    """Read the programs from the file, one per line."""
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
        hint = f"; {command[:60]!r} is none" if command else ""
        raise ExecutableRefused(f"Give the absolute path of a program{hint}.")
    program = os.path.realpath(command)
    try:
        mode = Path(program).stat().st_mode
    except OSError as error:
        raise ExecutableRefused(f"{command} cannot be run: {error.strerror}.") from None
    if not stat.S_ISREG(mode):
        file_kind = "a directory" if stat.S_ISDIR(mode) else "not a file"
        raise ExecutableRefused(f"{command} is {file_kind}: give the path of a program.")
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
    """Whether the program is a text file without a `#!` line. False for a program that cannot be read."""
    try:
        with Path(program).open("rb") as file:
            file_head = file.read(INSPECTED_BYTES)
    except OSError:
        return False
    return not file_head.startswith(b"#!") and b"\0" not in file_head


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
    """Whether the real path is a script in the examples directory."""
    examples = Path(os.path.realpath(EXAMPLES_DIRECTORY))
    return Path(script).parent in {examples, examples / "agents"} and Path(script).is_file()
