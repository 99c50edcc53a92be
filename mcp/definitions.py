"""Pinning: what of a tool is approved, what changed under it, and who may say yes."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.db.models.functions import Now

from common import canonical
from common.errors import Conflict, Invalid, NotAllowed
from mcp import flags
from mcp.choices import DEFINITION_MOVES, DefinitionState
from mcp.models import Server, Tool, ToolDefinition
from nhi import schemas
from nhi.actors import SYSTEM, Actor
from nhi.choices import ActorKind
from nhi.inputs import Problems
from nhi.models import Identity
from nhi.record import events, lines

#: What is pinned of a tool besides the server as it is reached and the capability that roles match.
PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta")
OURS = ("server", "capability")
LARGEST = 256 * 1024


class StaleHash(Conflict):
    """What was looked at is not what would be approved."""

    code = "stale_hash"


class OwnChange(NotAllowed):
    """Whoever made a change is not the one to approve it."""

    code = "own_change"


@dataclass(frozen=True)
class Change:
    """One place in which two definitions differ."""

    place: str
    kind: str
    before: str
    after: str


def body_of(listed: dict[str, Any], identity: dict[str, Any]) -> dict[str, Any]:
    """What is pinned of a tool that the server of this identity lists. Too large or no JSON is said as Invalid."""
    body = {name: listed[name] for name in PINNED if listed.get(name) is not None} | {"server": identity}
    try:
        size = len(canonical.encode(body))
    except canonical.NotCanonical as error:
        raise Invalid.field("tool", str(error)) from error
    if lines.storable(body) != body:
        raise Invalid.field("tool", "Its definition holds the character U+0000, which no database stores.")
    if size > LARGEST:
        raise Invalid.field("tool", f"Its definition is larger than {LARGEST // 1024} KiB.")
    return body


def hash_of(body: dict[str, Any]) -> str:
    return hashlib.sha256(canonical.encode(body)).hexdigest()


def see(
    tool: Tool, body: dict[str, Any], *, server: Server, elsewhere: frozenset[str], changed_by: Actor = SYSTEM
) -> bool:
    """Take down what the server says of the tool now. True when it is not what it said before.

    `elsewhere`: the names of other servers' tools; `changed_by`: the person who made it another one, not the server.
    """
    body = body | {"capability": tool.identity.capability}
    digest = hash_of(body)
    if tool.current is not None and tool.current.hash == digest:
        return False
    known = ToolDefinition.objects.filter(tool=tool, hash=digest).first()
    tool.current = known or _new(tool, body, server, elsewhere, changed_by)
    Tool.objects.filter(pk=tool.pk).update(current=tool.current)
    # From here on the row is held: somebody may have approved what it said before since it was read.
    tool.refresh_from_db(fields=["state", "approved"])
    if tool.state == DefinitionState.APPROVED and move(tool, DefinitionState.QUARANTINED):
        events.write("tool.quarantined", actor=SYSTEM, subject=tool.identity, details=_what_changed(tool))
    return True


def move(tool: Tool, to: DefinitionState) -> bool:
    """Compare and swap; False when somebody else moved it first."""
    old = DefinitionState(tool.state)
    if to not in DEFINITION_MOVES[old]:
        return False
    approved = {"approved": tool.approved} if to == DefinitionState.APPROVED else {}
    moved = Tool.objects.filter(pk=tool.pk, state=old).update(state=to, state_since=Now(), **approved)
    if moved:
        tool.state = to
    return bool(moved)


def approve(*, actor: Actor, tool: Tool, definition_hash: str, reason: str) -> Tool:
    """Let calls through by the definition that was looked at."""
    actor.require("mcp.approve_definition", "approve definitions of tools")
    problems = Problems()
    problems.reason(reason)
    problems.settle()
    with transaction.atomic():
        locked = Tool.objects.select_for_update(of=("self",)).select_related("server", "identity").get(pk=tool.pk)
        wanted = locked.current
        if wanted is None or wanted.hash != definition_hash:
            raise StaleHash("The definition is another one by now. Look at it again, then approve that one.")
        if locked.state not in (DefinitionState.PENDING, DefinitionState.QUARANTINED):
            raise Conflict(f"{locked} is {DefinitionState(locked.state).label.lower()}. Nothing was changed.")
        alone = _alone(actor, locked, wanted)
        own = locked.approved_id is None and actor.id in _makers(locked)
        locked.approved = wanted
        ToolDefinition.objects.filter(pk=wanted.pk).update(
            approved_at=Now(), approved_by_id=actor.id, approved_by_name=actor.name, approve_reason=reason,
            self_approved=own,
        )  # fmt: skip
        move(locked, DefinitionState.APPROVED)
        details = {"hash": wanted.hash, "number": wanted.number, "self_approved": own, "break_glass": alone}
        events.write("tool.approved", actor=actor, subject=locked.identity, details=details, reason=reason)
    return Tool.objects.select_related("server", "identity", "approved", "current").get(pk=tool.pk)


def who_may_not(tool: Tool) -> dict[Any, str]:
    """Who may not approve what waits, and why; nobody is barred from a new server's first definitions."""
    wanted, approved = tool.current, tool.approved
    if wanted is None:
        return {}
    if approved is None:
        barred = dict.fromkeys(_movers(tool.server), "changed how this server is reached")
    else:
        barred = {
            tool.server.created_by_id: "registered this server",
            approved.approved_by_id: "approved the definition before this one",
            **dict.fromkeys(_changers(tool, wanted, approved), "made this change"),
        }
    barred.pop(None, None)
    return {**dict.fromkeys(_behind(barred), "are behind the service account that made this change"), **barred}


def _movers(server: Server) -> set[Any]:
    """Who changed how a server is reached whose tools were known by then: what it lists since is a part of that."""
    moved = ToolDefinition.objects.filter(tool__server=server, server_moved=True)
    return set(moved.values_list("changed_by_id", flat=True))


def _behind(ids: Iterable[Any]) -> set[Any]:
    """The people who hold a service account in their hands: its owners, and who has made its credentials."""
    accounts = Identity.objects.filter(pk__in=ids)
    found = accounts.values_list("owner_id", "backup_owner_id", "credentials__created_by_id")
    return {one for row in found for one in row} - {None}


def _changers(tool: Tool, wanted: ToolDefinition, approved: ToolDefinition) -> Iterator[Any]:
    """Whoever changed the capability, or how the server is reached, since the last approval: what the server said after
    that, or had said before, is a part of their change."""
    yield wanted.changed_by_id
    if wanted.body.get("server") != approved.body.get("server"):
        yield tool.server.changed_by_id
    if wanted.body.get("capability") != approved.body.get("capability"):
        yield tool.capability_by_id
    yield from tool.definitions.filter(number__gt=approved.number).values_list("changed_by_id", flat=True)


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """Field by field, in the order in which a person reads them."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    places = list(dict.fromkeys([*old, *new]))
    return [
        Change(place, _kind(place, old, new), old.get(place, ""), new.get(place, ""))
        for place in places
        if old.get(place) != new.get(place)
    ]


def names_elsewhere(server: Server) -> frozenset[str]:
    """What another server's tools are called; a description that names one steers the calls of that one."""
    others = Tool.objects.exclude(server=server).values_list("server__name", "name")[:2000]
    return frozenset(f"{other}__{name}" for other, name in others)


def _new(
    tool: Tool, body: dict[str, Any], server: Server, elsewhere: frozenset[str], changed_by: Actor
) -> ToolDefinition:
    number = ToolDefinition.objects.filter(tool=tool).aggregate(last=Max("number"))["last"] or 0
    # The people's part of a change: the server is reached in another way than when it was pinned.
    moved = tool.current is not None and tool.current.body.get("server") != body["server"]
    who = (server.changed_by_id, server.changed_by_name) if moved else (changed_by.id, changed_by.name)
    described = {name: value for name, value in body.items() if name not in OURS}
    schema = body.get("inputSchema")
    unusable = schemas.problem(schema) if isinstance(schema, dict) else "It has no input schema."
    found = [flag.as_json() for flag in flags.of_definition(described, elsewhere)]
    if unusable:
        said = f"arguments are not checked against it here: {unusable}"
        found.append(flags.Flag("schema", "inputSchema", said).as_json())
    return ToolDefinition.objects.create(
        tool=tool,
        number=number + 1,
        hash=hash_of(body),
        body=body,
        checkable=not unusable,
        flags=found,
        changed_by_id=who[0],
        changed_by_name=who[1] if who[0] else "",
        server_moved=moved,
    )


def _alone(actor: Actor, tool: Tool, wanted: ToolDefinition) -> bool:
    """Whether a superuser breaks glass; anybody else is refused where another person has to look."""
    if actor.kind == ActorKind.IDENTITY:
        raise OwnChange("A person approves definitions, never an identity.")
    why = who_may_not(tool).get(actor.id)
    if why is None or tool.approved_id == wanted.pk:
        return False
    if not actor.is_superuser:
        raise OwnChange(f"You {why}, so someone else must approve the change.", details={"reason": "own_change"})
    return True


def _makers(tool: Tool) -> set[Any]:
    return {tool.server.created_by_id, tool.server.changed_by_id, tool.capability_by_id}


def _what_changed(tool: Tool) -> dict[str, Any]:
    assert tool.current is not None  # set just now
    before = tool.approved.body if tool.approved else {}
    places = [change.place for change in differences(before, tool.current.body)]
    return {"number": tool.current.number, "changed": places[:30], "flags": len(tool.current.flags)}


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{place}.{name}" if place else str(name))
    else:
        yield place, value if isinstance(value, str) else canonical.encode(value).decode()


def _kind(place: str, old: dict[str, str], new: dict[str, str]) -> str:
    if place not in old:
        return "added"
    return "removed" if place not in new else "changed"
