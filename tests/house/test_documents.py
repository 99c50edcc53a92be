"""What the documents say of commands, settings and processes is what there is."""

import os
import re
import runpy
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
import uvicorn
from django.core.management import BaseCommand, get_commands, load_command_class

from common.installation_keys import InstallationKeys
from config import environment
from config.launcher import plan, uvicorn_server
from tests.services.house import ROOT

OURS = ("config", "common", "nhi", "mcp", "supervisor", "a2a")
#: Said once above the table, for all.
OF_ALL = {"--json"}
#: Of Python's and Django's own, not settings of this house.
FOREIGN = {"DJANGO_SETTINGS_MODULE"}
READ = re.compile(r"""os\.environ(?:\.get\(|\[)"([A-Z][A-Z_]+)\"|"([A-Z][A-Z_]+)" in os\.environ""")


def table(document: str) -> list[str]:
    """The first cell of each row."""
    lines = (ROOT / "docs" / "reference" / document).read_text().splitlines()
    return [line.split("|")[1].strip() for line in lines if line.startswith("| `")]


# ── Commands ─────────────────────────────────────────────────────────────────────────────────────────────────────
def options(app: str, name: str) -> set[str]:
    """Those of this command alone."""
    parser = load_command_class(app, name).create_parser("manage.py", name)
    usual = BaseCommand().create_parser("manage.py", name)
    known = {text for action in usual._actions for text in action.option_strings}
    return {text for action in parser._actions for text in action.option_strings} - known - OF_ALL


def documented_commands() -> dict[str, set[str]]:
    """Each with the options that stand beside it; a cell may name several commands."""
    found = {}
    for cell in table("commands.md"):
        for words in re.findall(r"`([^`]+)`", cell):
            found[words.split()[0]] = set(re.findall(r"--[a-z-]+", words))
    return found


@pytest.mark.capability("OPS-05")
def test_every_command_stands_in_the_table_with_each_of_its_options() -> None:
    ours = {name: app for name, app in get_commands().items() if app in OURS}
    assert len(ours) > 15
    said = documented_commands()
    assert {name: said.get(name) for name in ours} == {name: options(app, name) for name, app in ours.items()}


@pytest.mark.capability("OPS-05")
def test_every_command_in_the_table_is_one() -> None:
    assert documented_commands().keys() <= get_commands().keys()


# ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────
def read_by_settings(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What the settings ask their reader for, whatever it says."""
    asked: set[str] = set()
    plain = environment.text

    def noting(name: str, default: str = "") -> str:
        asked.add(name)
        return plain(name, default)

    monkeypatch.setattr(environment, "text", noting)
    runpy.run_path(str(ROOT / "config" / "settings.py"))
    return asked | {field.name.upper() for field in fields(InstallationKeys)}


def read_elsewhere() -> set[str]:
    sources = (path.read_text() for top in OURS for path in (ROOT / top).rglob("*.py"))
    return {name for text in sources for found in READ.findall(text) for name in found if name}


@pytest.mark.capability("OPS-02")
def test_every_name_read_from_the_environment_stands_in_the_table_and_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in {*os.environ} & {name for cell in table("environment.md") for name in re.findall(r"`([A-Z_]+)`", cell)}:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GATEHOUSE_DATA", str(tmp_path))
    said = {name for cell in table("environment.md") for name in re.findall(r"`([A-Z_]+)`", cell)}
    read = read_by_settings(monkeypatch) | read_elsewhere()
    assert {"PORT", "OIDC_NAME", "DATABASE_URL", "SECRET_KEY", "PROMETHEUS_MULTIPROC_DIR"} <= read
    assert said == read - FOREIGN


# ── Processes ────────────────────────────────────────────────────────────────────────────────────────────────────
def started_by_hand() -> list[list[str]]:
    """The commands of the first block under Processes."""
    text = (ROOT / "docs" / "how-to" / "production.md").read_text().partition("**Processes.**")[2]
    block = text.split("```")[1].replace("\\\n", " ")
    return [shlex.split(line) for line in block.splitlines() if line.strip()]


def started_by_up() -> list[list[str]]:
    """As `up` calls them, but for where each listens and what it writes: the last two words of those. Web processes
    are another matter: `up` hands them a listening socket."""
    env: dict[str, str] = {}
    told = [*plan.grpc(env, "127.0.0.1"), *plan.beat(env)]
    whole = [*plan.workers(env), *plan.stdio_owner(env)]
    argvs = [*(child.argv[:-2] for child in told), *(child.argv for child in whole)]
    return [[word for word in argv[1:] if word != "-m"] for argv in argvs]


@pytest.mark.capability("OPS-01")
def test_processes_are_started_by_hand_as_the_launcher_starts_them() -> None:
    by_hand, by_up = started_by_hand(), started_by_up()
    assert len(by_hand) == len(by_up) + 1 == 6
    for argv in by_up:
        assert [words for words in by_hand if words[: len(argv)] == argv], argv


@pytest.mark.capability("OPS-01")
def test_web_processes_have_the_same_options_by_hand_as_under_the_launcher() -> None:
    program, *words = next(words for words in started_by_hand() if words[0] == "uvicorn")
    options = uvicorn.main.make_context(program, words).params
    assert options["app"] == uvicorn_server.APPLICATION
    assert {name: options[name] for name in uvicorn_server.OPTIONS} == uvicorn_server.OPTIONS


@pytest.mark.capability("OPS-01")
def test_the_page_of_the_queue_starts_the_worker_as_the_launcher_does() -> None:
    page = (ROOT / "templates" / "admin" / "supervisor" / "queue" / "page.html").read_text()
    assert f"<code>python {' '.join(plan.RUNS[1:])}</code>" in page
