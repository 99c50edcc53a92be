"""Every address that Django answers, with an example of each that leads to something that is there."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.urls import URLPattern, get_resolver

from a2a import card_changes, pushing
from a2a.models import WebhookSecret
from mcp.choices import BreakerState
from mcp.limits import budgets
from mcp.models import Breaker
from nhi import actors, demo
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.models import (
    AuditEvent,
    Credential,
    Identity,
    NhiPermission,
    Role,
    RoleAssignment,
    RoleCapability,
    SavedView,
    ToolPermission,
    User,
    UserPermission,
)
from nhi.people import saved_views
from tests.a2a import rows as tasks
from tests.console import calling, gateway
from tests.supervisor import rows

PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
#: Patterns that are no route, and an address that each answers.
REGEXES = {
    "^(?P<app_label>": "nhi/",
    "(?P<url>.*)$": "nothing-here/",
    "^api/": "api/nothing-here",
}
#: Whatever a session has written that was not there before, and the names of those who may come and go.
TRANSIENT = frozenset({"django_session"})


@dataclass(frozen=True)
class Place:
    route: str
    name: str
    path: str


class Stage:
    """The demo, and what it lacks: somebody's token, a saved view, someone without a console who owns an agent."""

    def __init__(self) -> None:
        demo.seed()
        self.mara = User.objects.get(username="mara")
        self.bot = Identity.objects.get(name="triage-bot")
        self.token = credentials.issue(actor=SYSTEM, holder=self.mara).credential
        saved_views.create(
            actor=actors.person(self.mara), page="nhi_identity_changelist", name="Agents", query="kind=agent"
        )
        tool = gateway.quarantined()
        ours = rows.keep(self.bot)
        card_changes.put_skill(actor=SYSTEM, identity=self.bot, skill={"skill_id": "sort", "name": "Sort"})
        # Of an agent that nothing is supervised for: its own workers take them.
        writer = Identity.objects.get(name="writer")
        task, told = tasks.keep(writer), tasks.told(writer)
        self.objects: dict[str, Any] = {
            "a2a/task/": task,
            "a2a/delivery/": told,
            "a2a/webhooksecret/": WebhookSecret.objects.get(owner_id=told.owner_id),
            "mcp/breaker/": Breaker.objects.create(service_name="llm-api", state=BreakerState.OPEN, failure_count=3),
            "mcp/budget/": budgets.create(actor=SYSTEM, scope="agent", target_id=self.bot.pk, calls_per_hour=60),
            "mcp/callapproval/": calling.asked(),
            "mcp/server/": tool.server,
            "mcp/tool/": tool,
            "supervisor/session/open/": ours.session.agent,
            "supervisor/agent/": ours.agent,
            "supervisor/execution/": ours.run,
            "supervisor/schedule/": ours.schedule,
            "supervisor/session/": ours.session,
            "nhi/auditevent/": AuditEvent.objects.filter(event="identity.suspended").get(),
            "nhi/credential/": self.token,
            "nhi/identity/": self.bot,
            "nhi/invocationlog/": calling.denied(),
            "nhi/nhipermission/": NhiPermission.objects.earliest("created_at"),
            "nhi/role/": Role.objects.get(name="break-glass"),
            "nhi/roleassignment/": RoleAssignment.objects.earliest("created_at"),
            "nhi/savedview/": SavedView.objects.get(),
            "nhi/toolpermission/": ToolPermission.objects.earliest("created_at"),
            "nhi/user/": User.objects.get(username="tom"),
            "nhi/userpermission/": UserPermission.objects.earliest("created_at"),
            "admin/tokens/": self.token,
        }
        self.values: dict[str, Any] = {
            "credential": Credential.objects.get(identity=self.bot).pk,
            "capability": RoleCapability.objects.get(pattern="*.*").pk,
            "page": "nhi_identity_changelist",
            "what": "agent",
            "provider_id": "company",
            "content_type_id": "1",
            "object_id": "1",
            "identity_id": self.bot.pk,
            "credential_id": Credential.objects.get(identity=self.bot).pk,
            "role_id": Role.objects.get(name="break-glass").pk,
            "capability_id": RoleCapability.objects.get(pattern="*.*").pk,
            "assignment_id": RoleAssignment.objects.earliest("created_at").pk,
            "server_id": tool.server.pk,
            "tool_id": tool.pk,
            "name": tool.identity.name,
            "budget_id": self.objects["mcp/budget/"].pk,
            "approval_id": self.objects["mcp/callapproval/"].pk,
            "call_id": self.objects["nhi/invocationlog/"].pk,
            "service_name": "llm-api",
            "agent_id": ours.agent.pk,
            "execution_id": ours.run.pk,
            "schedule_id": ours.schedule.pk,
            "session_id": ours.session.pk,
            "skill_id": "sort",
            "task_id": task.pk,
            "receiver": pushing.make(
                actor=SYSTEM, task=task, asked={"url": "https://hooks.example.com/events"}, wire_version="1.0"
            ).pk,
            "delivery_id": told.pk,
            "secret_id": self.objects["a2a/webhooksecret/"].pk,
        }
        self.grants: dict[str, Any] = {
            "permissions/tools": ToolPermission, "permissions/nhi": NhiPermission, "permissions/users": UserPermission
        }  # fmt: skip

    def places(self, under: str) -> list[Place]:
        """Every address below a path, each with an example."""
        found = [Place(route, name, f"/{self._example(route)}") for route, name in _patterns() if under in route]
        # Two patterns for one address: the first answers.
        return list({place.path: place for place in reversed(found) if place.path.startswith(f"/{under}")}.values())

    def _example(self, route: str) -> str:
        for pattern, example in REGEXES.items():
            head, there, _ = route.partition(pattern)
            if there:
                return head + example
        return PARAMETER.sub(lambda match: str(self._value(route, match[1])), route)

    def _value(self, route: str, parameter: str) -> Any:
        if parameter == "pk":
            return next((row.pk for part, row in self.objects.items() if part in route), 1)
        if parameter == "grant_id":
            return next(m.objects.earliest("created_at").pk for part, m in self.grants.items() if part in route)
        if parameter not in self.values:
            raise LookupError(f"Give the walk an example of <{parameter}> in {route}")
        return self.values[parameter]


def _patterns(resolver: Any = None, before: str = "") -> Iterator[tuple[str, str]]:
    for one in (resolver or get_resolver()).url_patterns:
        route = before + str(one.pattern)
        if isinstance(one, URLPattern):
            yield route, one.name or ""
        else:
            yield from _patterns(one, route)


def snapshot() -> dict[str, str]:
    """A fingerprint of every table but what a look may write: the session, and what an auditor opened or took away."""
    with connection.cursor() as cursor:
        return {
            table: _fingerprint(cursor, table)
            for table in connection.introspection.table_names(cursor)
            if table not in TRANSIENT
        }


def _fingerprint(cursor: Any, table: str) -> str:
    looked = "event = 'page.opened' OR event = 'export.made' AND actor_name = 'ada'"
    cursor.execute(f'SELECT * FROM "{table}"' + (f" WHERE NOT ({looked})" if table == "nhi_audit_event" else ""))
    rows = sorted(repr([bytes(cell) if isinstance(cell, memoryview) else cell for cell in row]) for row in cursor)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def changed(before: dict[str, str]) -> set[str]:
    return {table for table, was in snapshot().items() if was != before.get(table)}
