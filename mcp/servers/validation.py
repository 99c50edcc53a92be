"""Validates the configuration of a server. All problems are reported at once, each with its field."""

import re
from collections.abc import Mapping

from common import egress
from common.process import executable_allowlist
from common.redaction import redact_text
from common.redaction.secret_names import is_secret_name
from mcp.choices import Transport
from mcp.models import Server
from mcp.protocol import headers
from mcp.protocol.endpoints import RESERVED_NAMES
from mcp.servers import secrets
from nhi.validation import Problems, is_plain

SERVER_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
SEMVER = re.compile(r"\d{1,6}\.\d{1,6}\.\d{1,6}(?:[-+][0-9A-Za-z.-]{1,40})?")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
MIN_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS = 0.1, 600.0
MIN_SECRET_CHARS = 6


def check_name(problems: Problems, name: str) -> None:
    problems.unless(
        SERVER_NAME.fullmatch(name),
        "name",
        "Use 1 to 63 lower-case letters, digits and hyphens, beginning with no hyphen.",
    )
    problems.unless(name not in RESERVED_NAMES, "name", f"{name} is a path of the gateway itself; choose another name.")


def check_server(problems: Problems, server: Server, secret_names: set[str]) -> None:
    problems.check_line("description", server.description, max_length=1000)
    problems.unless(server.owner.is_active, "owner_id", f"{server.owner.username} is deactivated; choose someone here.")
    problems.unless(
        MIN_TIMEOUT_SECONDS <= server.timeout <= MAX_TIMEOUT_SECONDS,
        "timeout",
        f"Use {MIN_TIMEOUT_SECONDS:g} to {MAX_TIMEOUT_SECONDS:g} seconds, like 30s.",
    )
    version = server.schema_version
    problems.unless(not version or SEMVER.fullmatch(version), "schema_version", "Use a version like 1.2.0.")
    capabilities_valid = all(is_plain(capability) and 0 < len(capability) <= 100 for capability in server.capabilities)
    problems.unless(
        capabilities_valid and len(server.capabilities) <= 50, "capabilities", "Use at most 50 short words."
    )
    if server.transport not in Transport.values:
        problems.add("transport", "Choose stdio, http or sse.")
    elif server.transport == Transport.STDIO:
        _check_process(problems, server, secret_names)
    else:
        _check_address(problems, server, secret_names)


def _check_process(problems: Problems, server: Server, secret_names: set[str]) -> None:
    problems.unless(not server.base_url, "base_url", "A process has no address; leave this out, or choose http.")
    problems.unless(not server.headers, "headers", "A process is sent no headers; leave them out, or choose http.")
    if not server.command:
        problems.add("command", "Name the program to run, as an absolute path.")
    elif message := executable_allowlist.find_command_problem(server.command, server.args):
        problems.add("command", message)
    for number, argument in enumerate(server.args):
        problems.unless(len(argument) <= 2000, f"args[{number}]", "Use at most 2000 characters.")
        references = secrets.find_references([argument])
        message = "Arguments are seen by others on the machine; put secrets into env."
        problems.unless(not references and redact_text(argument) == argument, f"args[{number}]", message)
    for name, value in server.env.items():
        message = executable_allowlist.find_variable_problem(name)
        problems.unless(not message, f"env.{name}", message)
        _check_value(problems, "env", name, value, secret_names)


def _check_address(problems: Problems, server: Server, secret_names: set[str]) -> None:
    problems.unless(not server.command, "command", "A server with an address runs no program; leave this out.")
    problems.unless(not server.args, "args", "A server with an address takes no arguments; leave them out.")
    problems.unless(not server.env, "env", "A server with an address has no environment; use headers.")
    if not server.base_url:
        problems.add("base_url", "Give the server's address, like https://mcp.example.org/mcp.")
    elif secrets.find_references([server.base_url]):
        problems.add("base_url", "Addresses stand in logs; put secrets into headers.")
    elif message := egress.find_url_problem(server.base_url):
        problems.add("base_url", message)
    for name, value in server.headers.items():
        is_valid = HEADER_NAME.fullmatch(name) and not headers.is_reserved_header(name)
        problems.unless(is_valid, f"headers.{name}", "This header is the connection's own, or no header's name.")
        _check_value(problems, "headers", name, value, secret_names)


def _check_value(problems: Problems, section: str, name: str, value: str, secret_names: set[str]) -> None:
    field, references = f"{section}.{name}", secrets.find_references([value])
    problems.unless(len(value) <= 8000, field, "Use at most 8000 characters.")
    problems.unless(not any(mark in value for mark in "\0\r\n"), field, "Use a single line.")
    for missing in sorted(references - secret_names):
        problems.add(field, f"${{{missing}}} names no secret of this server. Add it to secrets.")
    # Everybody with access to the server can read this value, and the audit log keeps it.
    literal_text = secrets.REFERENCE.sub("", value)
    looks_secret = bool(value) and not references and is_secret_name(name, value)
    message = "This looks like a secret: put it into secrets, and write ${NAME} here."
    problems.unless(not looks_secret and redact_text(literal_text) == literal_text, field, message)


def check_secrets(problems: Problems, values: Mapping[str, str]) -> None:
    problems.unless(len(values) <= 50, "secrets", "Use at most 50 secrets.")
    for name, value in values.items():
        is_valid = secrets.SECRET_NAME.fullmatch(name) is not None
        problems.unless(is_valid, f"secrets.{name}", "Use letters, digits and underscores, beginning with no digit.")
        one_line = not any(mark in value for mark in "\0\r\n")
        problems.unless(one_line and len(value) <= 8000, f"secrets.{name}", "Use one line of text.")
        too_short = f"Use at least {MIN_SECRET_CHARS} characters: a shorter one is found in everything"
        problems.unless(
            len(value) >= MIN_SECRET_CHARS or not is_valid, f"secrets.{name}", f"{too_short}, so it is hidden nowhere."
        )
