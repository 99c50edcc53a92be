"""Pins tool definitions, detects changes and approves definitions."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any

from django.db import transaction
from django.db.models import Case, Max, When
from django.db.models.functions import Now

from common import canonical_json
from common.errors import Conflict, InvalidInput, NotAllowed
from mcp.choices import DEFINITION_MOVES, DefinitionState
from mcp.models import Server, Tool, ToolDefinition
from mcp.tools import injection_flags, reviewers
from nhi.actors import SYSTEM, Actor
from nhi.audit import events, sanitization
from nhi.choices import ActorKind
from nhi.decisions import json_schema
from nhi.validation import Problems

#: The pinned fields of a listed tool. The server's connection settings and the tool's capability are pinned as well.
PINNED_FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta")
OWN_FIELDS = ("server", "capability")
MAX_DEFINITION_BYTES = 256 * 1024
#: Maximum length of each text of a definition in a bulk approval: short enough to read among a hundred of them.
MAX_BULK_CHARS = 300
#: Limits of one run that renews flags: definitions and seconds.
MAX_RENEWED, RENEW_SECONDS = 500, 5.0


class StaleHash(Conflict):
    """The reviewed definition is not the current one."""

    code = "stale_hash"


class OwnChange(NotAllowed):
    """A person may not approve their own change."""

    code = "own_change"


class IndividualReviewRequired(Conflict):
    """This definition must be reviewed in full on its own page."""

    code = "review_alone"


@dataclass(frozen=True)
class DefinitionChange:
    """A difference between two definitions at one place."""

    place: str
    kind: str
    before: str
    after: str


def build_body(listed_tool: dict[str, Any], identity: dict[str, Any]) -> dict[str, Any]:
    """Build the pinned body of a listed tool. A body that is too large or not valid JSON raises InvalidInput."""
    body = {name: listed_tool[name] for name in PINNED_FIELDS if listed_tool.get(name) is not None} | {
        "server": identity
    }
    try:
        size = len(canonical_json.encode(body))
    except canonical_json.CanonicalizationError as error:
        raise InvalidInput.for_field("tool", str(error)) from error
    if sanitization.make_storable(body) != body:
        raise InvalidInput.for_field("tool", "Its definition holds the character U+0000, which no database stores.")
    if size > MAX_DEFINITION_BYTES:
        raise InvalidInput.for_field("tool", f"Its definition is larger than {MAX_DEFINITION_BYTES // 1024} KiB.")
    return body


def hash_body(body: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json.encode(body)).hexdigest()


def record_definition(
    tool: Tool, body: dict[str, Any], *, server: Server, found_flags: "DefinitionScan | None" = None,
    changed_by: Actor = SYSTEM,
) -> bool:  # fmt: skip
    """Record the tool's definition. Returns True if it differs from the current one.

    `found_flags`: the flags of this body, found before any lock; None if the body has the same text as the current
    definition. `changed_by`: the person whose change produced the definition, if it was not the server.
    """
    body = body | {"capability": tool.identity.capability}
    digest = hash_body(body)
    if tool.current is not None and tool.current.hash == digest:
        return False
    existing = ToolDefinition.objects.filter(tool=tool, hash=digest).first()
    tool.current = existing or _create_definition(tool, body, server, found_flags, changed_by)
    Tool.objects.filter(pk=tool.pk).update(current=tool.current)
    # The update locked the row. The previous definition may have been approved since the tool was read.
    tool.refresh_from_db(fields=["state", "approved"])
    if tool.state == DefinitionState.APPROVED and move_state(tool, DefinitionState.QUARANTINED):
        events.write("tool.quarantined", actor=SYSTEM, subject=tool.identity, details=_describe_change(tool))
    return True


def move_state(tool: Tool, new_state: DefinitionState) -> bool:
    """Compare and swap. Returns False if the transition is not allowed or another process changed the state first."""
    old_state = DefinitionState(tool.state)
    if new_state not in DEFINITION_MOVES[old_state]:
        return False
    approved = {"approved": tool.approved} if new_state == DefinitionState.APPROVED else {}
    updated = Tool.objects.filter(pk=tool.pk, state=old_state).update(state=new_state, state_since=Now(), **approved)
    if updated:
        tool.state = new_state
    return bool(updated)


def approve(*, actor: Actor, tool: Tool, definition_hash: str, reason: str) -> Tool:
    """Approve the reviewed definition, so that the tool can be called."""
    actor.require("mcp.approve_definition", "approve definitions of tools")
    problems = Problems()
    problems.check_reason(reason)
    problems.raise_if_any()
    with transaction.atomic():
        locked = Tool.objects.select_for_update(of=("self",)).select_related("server", "identity").get(pk=tool.pk)
        definition = locked.current
        if definition is None or definition.hash != definition_hash:
            raise StaleHash("The definition is another one by now. Look at it again, then approve that one.")
        if locked.state not in (DefinitionState.PENDING, DefinitionState.QUARANTINED):
            raise Conflict(f"{locked} is {DefinitionState(locked.state).label.lower()}. Nothing was changed.")
        break_glass = _breaks_glass(actor, locked)
        self_approved = locked.approved_id is None and actor.id in _find_makers(locked)
        locked.approved = definition
        ToolDefinition.objects.filter(pk=definition.pk).update(
            approved_at=Now(), approved_by_id=actor.id, approved_by_name=actor.name, approve_reason=reason,
            self_approved=self_approved,
        )  # fmt: skip
        reviewers.remove_changes(locked)
        move_state(locked, DefinitionState.APPROVED)
        details = {
            "hash": definition.hash,
            "number": definition.number,
            "self_approved": self_approved,
            "break_glass": break_glass,
        }
        events.write("tool.approved", actor=actor, subject=locked.identity, details=details, reason=reason)
    return Tool.objects.select_related("server", "identity", "approved", "current").get(pk=tool.pk)


def approve_in_bulk(
    *, actor: Actor, tool: Tool, definition_hash: str, reason: str, vocabulary: injection_flags.NameVocabulary
) -> Tool:
    """Approve one of several definitions that one page showed in full.

    The hash identifies the text on the page. A definition that needs an individual review is refused in any case.
    """
    actor.require("mcp.approve_definition", "approve definitions of tools")
    fresh = Tool.objects.select_related("current", "server").get(pk=tool.pk)
    if fresh.current is not None and fresh.current.hash == definition_hash:
        problem = why_not_in_bulk(fresh, vocabulary)
        if problem:
            raise IndividualReviewRequired(f"{fresh} {problem}. Open its page to approve it.")
    return approve(actor=actor, tool=tool, definition_hash=definition_hash, reason=reason)


def why_not_in_bulk(tool: Tool, vocabulary: injection_flags.NameVocabulary | None = None) -> str:
    """Return why a definition needs an individual review, as a phrase to follow the tool's name; "" if it does not.

    With a vocabulary, its flags are computed again: the stored ones may be older than the rules or other servers.
    """
    current = tool.current
    if tool.state != DefinitionState.PENDING or tool.approved_id is not None:
        return f"is {DefinitionState(tool.state).label.lower()}, and is reviewed one at a time"
    if current is None or current.flags or (vocabulary is not None and find_flags(current.body, vocabulary).flags):
        return "has flags, and is reviewed one at a time"
    if any(len(text) > MAX_BULK_CHARS for _, text in injection_flags.iterate_texts(server_text(current.body))):
        return f"has a text of more than {MAX_BULK_CHARS} characters, and is reviewed one at a time"
    return ""


def find_differences(before: dict[str, Any], after: dict[str, Any]) -> list[DefinitionChange]:
    """Return the differences field by field, in reading order."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    places = list(dict.fromkeys([*old, *new]))
    return [
        DefinitionChange(place, _change_kind(place, old, new), old.get(place, ""), new.get(place, ""))
        for place in places
        if old.get(place) != new.get(place)
    ]


def server_text(body: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a definition that the server wrote."""
    return {name: value for name, value in body.items() if name not in OWN_FIELDS}


@dataclass(frozen=True)
class DefinitionScan:
    """The result of scanning a tool definition: its flags, and whether its schema can check arguments."""

    flags: tuple[injection_flags.DefinitionFlag, ...]
    checkable: bool
    flagged_by: str = ""

    def as_json(self) -> list[dict[str, str]]:
        return [flag.as_json() for flag in self.flags]


def find_flags(body: dict[str, Any], vocabulary: injection_flags.NameVocabulary) -> DefinitionScan:
    """Scan the whole text of a body. This can take long, so never call it while a row is locked."""
    schema = body.get("inputSchema")
    schema_problem = json_schema.find_problem(schema) if isinstance(schema, dict) else "It has no input schema."
    flags = injection_flags.find_flags(server_text(body), vocabulary)
    if schema_problem:
        message = f"arguments are not checked against it here: {schema_problem}"
        flags.append(injection_flags.DefinitionFlag("schema", "inputSchema", message))
    return DefinitionScan(tuple(flags), not schema_problem, vocabulary.digest)


def load_vocabulary(server: Server) -> injection_flags.NameVocabulary:
    """Load the object names of all other servers. A description that mentions one can influence its calls."""
    return injection_flags.NameVocabulary(load_object_names(), excluded_server=server.name)


def load_object_names() -> list[injection_flags.ObjectName]:
    rows = Tool.objects.order_by("server__name", "name").values_list("server__name", "name", "identity__capability")
    return [injection_flags.ObjectName(*row) for row in rows]


def renew_flags(*, seconds: float = RENEW_SECONDS) -> int:
    """Compute flags again that come from earlier rules or other object names. Approved definitions stay approved.

    Definitions that wait for approval come first. The next run continues after the time limit.
    """
    names, deadline = load_object_names(), monotonic() + seconds
    vocabularies: dict[str, injection_flags.NameVocabulary] = {}
    digest = injection_flags.digest_names(names)
    stale = Tool.objects.exclude(current=None).exclude(current__flagged_by=digest)
    pending_first = Case(When(state=DefinitionState.APPROVED, then=1), default=0)
    renewed = 0
    for tool in stale.select_related("current", "server").order_by(pending_first, "pk")[:MAX_RENEWED]:
        if monotonic() > deadline:
            break
        assert tool.current is not None  # excluded by the query
        server_name = tool.server.name
        vocabulary = vocabularies.get(server_name) or injection_flags.NameVocabulary(names, excluded_server=server_name)
        vocabularies[server_name] = vocabulary
        scan = find_flags(tool.current.body, vocabulary)
        ToolDefinition.objects.filter(pk=tool.current.pk).update(flags=scan.as_json(), flagged_by=scan.flagged_by)
        renewed += 1
    return renewed


def _create_definition(
    tool: Tool, body: dict[str, Any], server: Server, found_flags: DefinitionScan | None, changed_by: Actor
) -> ToolDefinition:
    number = ToolDefinition.objects.filter(tool=tool).aggregate(last=Max("number"))["last"] or 0
    # The connection settings differ from the pinned ones, so a person caused this change.
    settings_changed = tool.current is not None and tool.current.body.get("server") != body["server"]
    changer = (server.changed_by_id, server.changed_by_name) if settings_changed else (changed_by.id, changed_by.name)
    return ToolDefinition.objects.create(
        tool=tool,
        number=number + 1,
        hash=hash_body(body),
        body=body,
        **_flag_fields(tool.current, body, server, found_flags),
        changed_by_id=changer[0],
        changed_by_name=changer[1] if changer[0] else "",
    )


def _flag_fields(
    previous: ToolDefinition | None, body: dict[str, Any], server: Server, found_flags: DefinitionScan | None
) -> dict[str, Any]:
    """Return the flags found beforehand, or those of the previous definition if its text is the same."""
    if found_flags is None and previous is not None and server_text(previous.body) == server_text(body):
        return {"flags": previous.flags, "checkable": previous.checkable, "flagged_by": previous.flagged_by}
    # No flags exist only if two listings of a server overlap: the current text changed between the scan and the lock.
    scan = found_flags or find_flags(body, load_vocabulary(server))
    return {"flags": scan.as_json(), "checkable": scan.checkable, "flagged_by": scan.flagged_by}


def _breaks_glass(actor: Actor, tool: Tool) -> bool:
    """Return whether a barred superuser breaks glass. Other barred people are refused."""
    if actor.kind == ActorKind.IDENTITY:
        raise OwnChange("A person approves definitions, never an identity.")
    bars = reviewers.find_barred(tool)
    bar = bars.get(actor.id) if actor.id is not None else None
    if bar is None:
        return False
    if not actor.is_superuser:
        raise OwnChange(
            reviewers.refusal_message(bar, reviewers.find_dead_end(tool, bars)), details={"reason": "own_change"}
        )
    return True


def _find_makers(tool: Tool) -> set[Any]:
    """Return the ids of people who added the server or changed its settings or capability.

    Their approval of a first definition is marked as self-approved.
    """
    changer_ids = tool.pending_changes.values_list("changed_by_id", flat=True)
    return {tool.server.created_by_id, tool.server.changed_by_id, *changer_ids}


def _describe_change(tool: Tool) -> dict[str, Any]:
    assert tool.current is not None  # set by the caller
    before = tool.approved.body if tool.approved else {}
    places = [change.place for change in find_differences(before, tool.current.body)]
    return {"number": tool.current.number, "changed": places[:30], "flags": len(tool.current.flags)}


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{place}.{name}" if place else str(name))
    else:
        yield place, value if isinstance(value, str) else canonical_json.encode(value).decode()


def _change_kind(place: str, old: dict[str, str], new: dict[str, str]) -> str:
    if place not in old:
        return "added"
    return "removed" if place not in new else "changed"
