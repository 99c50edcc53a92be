"""Registers the tools that servers list; changes what people set on a tool."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, count, groupby
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from common.errors import Conflict, GatehouseError, InvalidInput
from common.redaction import known_secrets, masks
from mcp.choices import DefinitionState
from mcp.models import PendingChange, Server, Tool
from mcp.tools import definitions, reviewers
from mcp.tools.definitions import DefinitionScan
from nhi.actors import SYSTEM, Actor
from nhi.audit import events, sanitization
from nhi.choices import Kind
from nhi.identities import identities
from nhi.models import Identity, User
from nhi.validation import TOOL_NAME_PATTERN

#: Per server.
MAX_TOOLS = 5000


class ServerChangedMeanwhile(Conflict):
    """The server's configuration changed while its tools were listed, so the listing is outdated."""

    code = "changed_meanwhile"


@dataclass
class RefreshReport:
    """The tools that a refresh of a server's catalogue added, changed, withdrew or refused, by name."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    unchanged: int = 0
    #: Listed tools that cannot be registered, each with the reason.
    refused: list[dict[str, str]] = field(default_factory=list)


def record_listing(*, actor: Actor, server: Server, listed_tools: list[dict[str, Any]]) -> RefreshReport:
    """Compare the listed tools with the registered ones. New and changed tools cannot be called before an approval."""
    report = RefreshReport()
    bodies = _collect_bodies(listed_tools, server, report)
    # Scanning long texts takes time, so it happens before the server's row is locked.
    found_flags = _find_flags(server, bodies)
    with transaction.atomic():
        expected_revision = server.revision
        server = Server.objects.select_for_update(of=("self",)).select_related("owner").get(pk=server.pk)
        if server.revision != expected_revision:
            raise ServerChangedMeanwhile(f"{server} was changed while it was asked. Ask it again.")
        tools_by_name = {tool.name: tool for tool in _tools_of(server)}
        changes, new_tools = _pending_changes(server), list[Tool]()
        for name, body in bodies.items():
            tool = tools_by_name.get(name) or _register_tool(name, body, server, report)
            if tool is None:
                continue
            if name not in tools_by_name:
                new_tools.append(tool)
            _record_tool(tool, body, server, found_flags.get(name), report)
            if tool.pk in changes:
                reviewers.settle_changes(tool, changes[tool.pk], body["server"])
        reviewers.adopt_changes(
            new_tools, tools_by_name.values(), chain.from_iterable(changes.values()), server.identity
        )
        for name in tools_by_name.keys() - bodies.keys():
            _withdraw_tool(tools_by_name[name], report)
        Server.objects.filter(pk=server.pk).update(last_refreshed_at=Now())
        if report.added or report.changed or report.withdrawn:
            counts = {"added": len(report.added), "changed": len(report.changed), "withdrawn": len(report.withdrawn)}
            events.write("server.refreshed", actor=actor, subject=server, details=counts)
    return report


def _find_flags(server: Server, bodies: dict[str, dict[str, Any]]) -> dict[str, DefinitionScan]:
    """Find the flags of new and changed texts."""
    bodies_before = dict(Tool.objects.filter(server=server).exclude(current=None).values_list("name", "current__body"))
    server_text = definitions.server_text
    changed_bodies = {
        name: body for name, body in bodies.items() if server_text(bodies_before.get(name, {})) != server_text(body)
    }
    vocabulary = definitions.load_vocabulary(server) if changed_bodies else None
    return (
        {name: definitions.find_flags(body, vocabulary) for name, body in changed_bodies.items()}
        if vocabulary is not None
        else {}
    )


def _pending_changes(server: Server) -> dict[UUID, list[PendingChange]]:
    rows = PendingChange.objects.filter(tool__server=server).order_by("tool_id", "changed_at", "pk")
    return {tool_id: list(group) for tool_id, group in groupby(rows, key=lambda row: row.tool_id)}


def remove_secrets(secret_values: Iterable[str], listed_tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mask the server's known secrets in its listed tools. Nothing else is masked: in a definition, a name like
    `password` is the name of a property."""
    forms = known_secrets.encode_forms(frozenset(secret_values))
    return [_mask_secrets(forms, tool) for tool in listed_tools] if forms else listed_tools


def _mask_secrets(forms: tuple[known_secrets.EncodedForm, ...], value: Any) -> Any:
    if isinstance(value, str):
        present = [form for form in forms if form.text in value]
        return (
            masks.replace_spans(value, masks.merge_spans(value, known_secrets.find_spans(value, present)))
            if present
            else value
        )
    if isinstance(value, dict):
        return {_mask_secrets(forms, name): _mask_secrets(forms, item) for name, item in value.items()}
    return [_mask_secrets(forms, item) for item in value] if isinstance(value, list) else value


def repin_definitions(server: Server) -> None:
    """Record new definitions of all tools after a change of the server's connection settings.

    Approvals hold for the previous settings only.
    """
    identity = server.identity
    changes = []
    for tool in _tools_of(server).exclude(current=None):
        changes.append((tool, reviewers.find_changed_places(tool.current.body.get("server") or {}, identity)))
        definitions.record_definition(tool, {**tool.current.body, "server": identity}, server=server)
    reviewers.record_changes(changes, server.changed_by_id, server.changed_by_name)


def on_capability_change(identity: Identity, changed: frozenset[str], actor: Actor) -> None:
    """Record a new definition when a tool's capability changes. Approvals hold for the previous capability only."""
    tool = _with_related(Tool.objects.filter(identity=identity)).first() if "capability" in changed else None
    if tool is not None and tool.current is not None:
        definitions.record_definition(tool, tool.current.body, server=tool.server, changed_by=actor)
        reviewers.record_changes([(tool, [reviewers.CAPABILITY])], actor.id, actor.name)


def _tools_of(server: Server) -> Any:
    return _with_related(Tool.objects.filter(server=server))


def _with_related(tools: Any) -> Any:
    return tools.select_related("identity", "server", "current", "approved")


def _collect_bodies(
    listed_tools: list[dict[str, Any]], server: Server, report: RefreshReport
) -> dict[str, dict[str, Any]]:
    """Return bodies by name. Duplicate and invalid names are refused."""
    bodies: dict[str, dict[str, Any]] = {}
    duplicates: set[str] = set()
    identity = server.identity
    for tool in listed_tools[:MAX_TOOLS]:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not _is_valid_name(f"{server.name}__{name}", name):
            _report_refusal(report, str(name), "Its name has other characters than letters, digits and . _ - / :")
            continue
        if name in bodies:
            duplicates.add(name)
        try:
            bodies[name] = definitions.build_body(tool, identity)
        except InvalidInput as error:
            _report_refusal(report, name, error.message)
    for name in duplicates:
        _report_refusal(report, name, "The server lists this name twice, so it is not clear which one is meant.")
    if len(listed_tools) > MAX_TOOLS:
        _report_refusal(report, "…", f"The server lists more than {MAX_TOOLS} tools.")
    return {name: body for name, body in bodies.items() if name not in duplicates}


def _is_valid_name(qualified_name: str, name: str) -> bool:
    return TOOL_NAME_PATTERN.fullmatch(qualified_name) is not None and len(name) <= 127


def _report_refusal(report: RefreshReport, name: str, reason: str) -> None:
    if len(report.refused) < 100:
        report.refused.append({"name": sanitization.single_line(name, 100), "message": reason})


def _register_tool(name: str, body: dict[str, Any], server: Server, report: RefreshReport) -> Tool | None:
    """Register a tool. Returns None if that fails, so that changes of the other tools are still recorded."""
    qualified_name = f"{server.name}__{name}"
    identity = Identity.objects.filter(kind=Kind.TOOL, name=qualified_name).first()
    default_capability = identities.default_capability(qualified_name)
    if identity is not None and identity.capability != default_capability:
        message = "A tool of this name was added by hand, with a capability of its own."
        _report_refusal(report, name, f"{message} Give it the capability {default_capability} first.")
        return None
    if identity is None:
        description = sanitization.single_line(str(body.get("description", "")), 400)
        try:
            identity = identities.create(
                actor=SYSTEM, kind=Kind.TOOL, name=qualified_name, owner=server.owner,
                capability=_choose_capability(qualified_name),
            )  # fmt: skip
        except GatehouseError as error:
            _report_refusal(report, name, error.message)
            return None
        events.write("tool.registered", actor=SYSTEM, subject=identity, details={"description": description})
    tool = Tool.objects.create(identity=identity, server=server, name=name)
    report.added.append(name)
    return tool


def _choose_capability(qualified_name: str) -> str:
    """Choose an unused capability, so that roles for a tool do not match another tool with a similar name."""
    default_capability = identities.default_capability(qualified_name)
    used_capabilities = set(
        Identity.objects.filter(capability__startswith=default_capability).values_list("capability", flat=True)
    )
    candidates = (f"{default_capability}-{number}" for number in count(2))
    return next(
        capability for capability in chain([default_capability], candidates) if capability not in used_capabilities
    )


def _record_tool(
    tool: Tool, body: dict[str, Any], server: Server, found_flags: DefinitionScan | None, report: RefreshReport
) -> None:
    is_new = tool.current is None
    changed = definitions.record_definition(tool, body, server=server, found_flags=found_flags)
    if tool.state == DefinitionState.WITHDRAWN:
        new_state = DefinitionState.QUARANTINED if tool.approved else DefinitionState.PENDING
        definitions.move_state(tool, new_state)
        events.write("tool.returned", actor=SYSTEM, subject=tool.identity)
        changed = True
    if changed and not is_new:
        report.changed.append(tool.name)
    report.unchanged += not changed
    Tool.objects.filter(pk=tool.pk).update(last_seen_at=Now())


def _withdraw_tool(tool: Tool, report: RefreshReport) -> None:
    if tool.state != DefinitionState.WITHDRAWN and definitions.move_state(tool, DefinitionState.WITHDRAWN):
        events.write("tool.withdrawn", actor=SYSTEM, subject=tool.identity)
        report.withdrawn.append(tool.name)


def change_tool(
    *,
    actor: Actor,
    tool: Tool,
    requires_approval: bool | None = None,
    deprecated: bool | None = None,
    owner: User | None = None,
) -> Tool:
    """Change a tool; arguments that are None change nothing. A deprecated tool still works but shows a notice."""
    actor.require("mcp.change_tool", "change tools")
    values = {"requires_approval": requires_approval, "deprecated": deprecated}
    with transaction.atomic():
        current = Tool.objects.select_for_update(of=("self",)).select_related("identity", "server").get(pk=tool.pk)
        _save_attributes(actor, current, {name: value for name, value in values.items() if value is not None})
        if owner is not None and owner.pk != current.identity.owner_id:
            current.identity = identities.change(actor=actor, identity=current.identity, owner=owner)
    return current


def _save_attributes(actor: Actor, tool: Tool, values: dict[str, Any]) -> None:
    before = {name: getattr(tool, name) for name, value in values.items() if getattr(tool, name) != value}
    if not before:
        return
    after = {name: values[name] for name in before}
    for name, value in after.items():
        setattr(tool, name, value)
    tool.save(update_fields=list(after))
    events.write("tool.changed", actor=actor, subject=tool.identity, before=before, after=after)
