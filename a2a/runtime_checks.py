"""What is wrong with a choice of what does an agent's tasks: all of it, each beside its field."""

import asyncio
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from a2a import carriers
from a2a.choices import RUN_HERE, Binding, RuntimeKind, WireVersion
from a2a.models import Runtime
from a2a.wire import metadata
from common import egress
from common.errors import InvalidInput
from common.redaction import redact_text
from mcp.protocol import headers
from nhi.choices import Kind as IdentityKind
from nhi.validation import Problems, is_plain
from supervisor.choices import Kind, Mode

HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
SCHEME = re.compile(r"[0-9A-Za-z-]{0,40}")
LONGEST_URL, LONGEST_CREDENTIAL, LONGEST_TIMEOUT = 2000, 8000, 600
RUNS = {RuntimeKind.CLI: Kind.PROCESS, RuntimeKind.MODEL: Kind.MODEL}


def check(draft: Runtime, credential: str | None) -> None:
    """Without asking the network."""
    problems = Problems()
    problems.unless(draft.identity.kind == IdentityKind.AGENT, "identity_id", "Tasks are sent to agents only.")
    if draft.kind not in carriers.kinds():
        problems.add("kind", _choose(carriers.kinds()))
    elif draft.kind in RUN_HERE:
        _check_agent(problems, draft)
    else:
        problems.unless(draft.agent is None, "agent_id", "Leave this out: nothing that runs here does these tasks.")
    if draft.kind == RuntimeKind.REMOTE:
        _check_remote(problems, draft, credential)
    else:
        problems.unless(not draft.url, "url", "Leave this out, or choose remote.")
        problems.unless(not credential, "credential", "Leave this out, or choose remote.")
    problems.raise_if_any()


def look_up(url: str) -> None:
    """Refuse a name that leads to where Gatehouse does not call. Not within a transaction: name servers may be slow."""
    try:
        asyncio.run(egress.check_url(url))
    except egress.EgressBlocked as blocked:
        raise InvalidInput.for_field("url", blocked.message) from blocked


def require_same_place(before: str, now: str) -> None:
    """A credential goes with what it was for, and is not handed to another place."""
    if _origin(before) != _origin(now):
        said = "Another place is asked now: give its credential, or take this one away (an empty text, by the API)."
        raise InvalidInput.for_field("credential", said)


def _check_agent(problems: Problems, draft: Runtime) -> None:
    agent = draft.agent
    if agent is None or agent.identity_id != draft.identity_id:
        problems.add("agent_id", f"Name an agent that runs as {draft.identity.name}.")
    elif agent.mode != Mode.TASK:
        problems.add("agent_id", f"{agent} is interactive and runs no tasks.")
    elif agent.kind != RUNS[RuntimeKind(draft.kind)]:
        problems.add("agent_id", f"{agent} is a {Kind(agent.kind).label.lower()}: choose the other kind.")


def _check_remote(problems: Problems, draft: Runtime, credential: str | None) -> None:
    problems.unless(len(draft.url) <= LONGEST_URL, "url", f"Use at most {LONGEST_URL} characters.")
    problems.unless(redact_text(draft.url) == draft.url, "url", "This holds a token or a password; use the credential.")
    if said := egress.find_url_problem(draft.url):
        problems.add("url", said)
    problems.unless(draft.wire_version in WireVersion.values, "wire_version", _choose(WireVersion))
    problems.unless(draft.binding in Binding.values, "binding", _choose(Binding))
    fine = not draft.header or (HEADER.fullmatch(draft.header) and not headers.is_reserved_header(draft.header))
    problems.unless(fine, "header", "Use the name of a header that Gatehouse does not set itself.")
    fine = draft.binding != Binding.GRPC or not draft.header or metadata.is_key(draft.header)
    problems.unless(
        fine, "header", "Over gRPC use letters, digits and - _ . alone, without grpc- before or -bin behind."
    )
    problems.unless(SCHEME.fullmatch(draft.scheme), "scheme", "Use a word like Bearer, or leave it empty.")
    problems.unless(1 <= draft.timeout <= LONGEST_TIMEOUT, "timeout", f"Use 1 to {LONGEST_TIMEOUT} seconds.")
    fine = not credential or (len(credential) <= LONGEST_CREDENTIAL and credential.isascii() and is_plain(credential))
    problems.unless(fine, "credential", f"Use at most {LONGEST_CREDENTIAL} printable ASCII characters.")


def _choose(known: Iterable[str]) -> str:
    *others, last = map(str, known)
    return f"Choose {', '.join(others)} or {last}."


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower()
