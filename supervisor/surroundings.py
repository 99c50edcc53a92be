"""What a run may be told by its environment, and which directories it may work in."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from django.conf import settings

from common.process import executable_allowlist
from nhi.validation import Problems

#: What every run is told besides what was declared for it.
PATH = "/usr/local/bin:/usr/bin:/bin"
LANG = "C.UTF-8"
#: For a run that goes on with a task: where the file is of what was said in it.
CONVERSATION = "GATEHOUSE_CONVERSATION"
#: Settings of this installation that steer nothing of a program; an agent is not told them all the same.
GRPC = ("GRPC_PORT", "GRPC_TLS_CERTIFICATE", "GRPC_TLS_KEY", "USUAL_AGENT", "GRPC_PROBE")
SETTINGS = frozenset({"PORT", "WEB_WORKERS", "ONE_PROCESSOR", "PUBLIC_URL", *GRPC})
MOST_VARIABLES, LONGEST_VALUE = 100, 32 * 1024
NUL = re.compile("\0")


def check_names(problems: Problems, field: str, names: Iterable[str]) -> None:
    for name in names:
        problem = name_problem(name)
        if problem:
            problems.add(f"{field}.{name[:60]}", problem)


def name_problem(name: str) -> str:
    """Why no run may be given this variable, as a sentence; empty when it may."""
    if name.upper() in SETTINGS or name.upper().startswith("OIDC_"):
        return f"{name} may not be set: it is a setting of this installation."
    return executable_allowlist.find_variable_problem(name)


def check_variables(problems: Problems, field: str, variables: Mapping[str, str]) -> None:
    problems.unless(len(variables) <= MOST_VARIABLES, field, f"Use at most {MOST_VARIABLES} variables.")
    check_names(problems, field, variables)
    for name, value in variables.items():
        fine = len(value.encode(errors="surrogatepass")) <= LONGEST_VALUE and not NUL.search(value)
        problems.unless(fine, f"{field}.{name[:60]}", "Use at most 32 KiB, without the NUL character.")


def directory_problem(path: str, *, for_operator: bool = True) -> str:
    """Why no run may work in this directory, as a sentence; empty when it may. Only operators read of settings."""
    if not path.startswith("/") or "\0" in path or "\n" in path:
        return "Give the absolute path of a directory."
    real = Path(os.path.realpath(path))
    if not any(real.is_relative_to(allowed) for allowed in settings.WORKDIR_ALLOWLIST):
        if not for_operator:
            return "Runs may not work in this directory. Leave it out, or ask an operator to allow it."
        return "This directory is not below one that WORKDIR_ALLOWLIST names."
    return "" if real.is_dir() else "There is no such directory."


def environment(
    *, run_id: str, token: str, home: Path, declared: Mapping[str, str], given: Mapping[str, str]
) -> dict[str, str]:
    """The whole environment of a run: nothing of this process's own gets in."""
    return {
        **declared,
        **given,
        "PATH": PATH,
        "HOME": str(home),
        "LANG": LANG,
        "GATEHOUSE_RUN_ID": run_id,
        "GATEHOUSE_URL": settings.PUBLIC_URL,
        "GATEHOUSE_TOKEN": token,
    }
