"""A large installation, loaded in bulk: identities, grants, roles and their holders, credentials."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.db import connection

from common.db import clock
from nhi.authorization import facts
from nhi.choices import Kind, State
from nhi.credentials import tokens
from nhi.decisions import capabilities, engine
from nhi.decisions.types import Decision, RequestedAction
from nhi.models import (
    Credential,
    Identity,
    NhiPermission,
    Role,
    RoleAssignment,
    RoleCapability,
    ToolPermission,
    User,
    UserPermission,
)

BATCH = 2000


@dataclass(frozen=True)
class Town:
    """Whom to ask: an agent with a grant, one with a role, and what they call."""

    token: str
    agent: Identity
    granted: Identity
    by_role: Identity
    never: Identity

    def ask(self, target: Identity) -> Decision:
        """A decision as every door makes it: from the token that was shown, in one query."""
        parsed = tokens.parse(self.token)
        assert parsed is not None
        loaded = facts.for_token(parsed, "192.0.2.1", target.pk)
        return engine.decide(loaded.caller, RequestedAction("call"), loaded.target, loaded.facts)


def build(identities: int, grants: int) -> Town:
    """Three fifths agents, a tenth service accounts, the rest tools; every agent holds about as many grants."""
    now = clock.database_now()
    people = [User(username=f"person-{number:04}") for number in range(max(10, identities // 20))]
    _load(User, people)
    owner = people[0]
    agents = [_identity(Kind.AGENT, f"agent-{number:05}", owner, now) for number in range(identities * 6 // 10)]
    accounts = [
        _identity(Kind.SERVICE_ACCOUNT, f"account-{number:05}", owner, now) for number in range(identities // 10)
    ]
    tools = [
        _identity(Kind.TOOL, f"s{number % 50}__t{number:05}", owner, now) for number in range(identities * 3 // 10)
    ]
    _load(Identity, [*agents, *accounts, *tools])
    _load(ToolPermission, _tool_grants(agents, tools, grants, now))
    _load(NhiPermission, _nhi_grants(agents, grants // 10, now))
    _load(UserPermission, [UserPermission(nhi=agent, user=owner, **_given(now)) for agent in agents[: grants // 100]])
    _roles(agents, now)
    made = tokens.make_credential_token("agt")
    _load(Credential, [*_credentials(agents[1:], now), _credential(agents[0], made, now)])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    granted = ToolPermission.objects.live().filter(agent=agents[0]).order_by("created_at").first()
    assert granted is not None
    held = set(ToolPermission.objects.filter(agent=agents[0]).values_list("tool_id", flat=True))
    by_role = next(tool for tool in tools if tool.name.startswith("s7__") and tool.pk not in held)
    never = next(tool for tool in tools if tool.name.startswith("s9__") and tool.pk not in held)
    return Town(made.token, agents[0], granted.tool, by_role, never)


def _load(model: Any, rows: Any) -> None:
    waiting = iter(rows)
    while batch := list(islice(waiting, BATCH)):
        model.objects.bulk_create(batch)


def _identity(kind: Kind, name: str, owner: User, now: datetime) -> Identity:
    capability = name.replace("__", ".") if kind == Kind.TOOL else None
    return Identity(
        kind=kind, name=name, owner=owner, state=State.ACTIVE, capability=capability, created_by_name="owner",
        created_at=now - timedelta(days=30),
    )  # fmt: skip


def _given(now: datetime) -> dict[str, Any]:
    return {"reason": "Load", "granted_by_name": "owner", "created_at": now - timedelta(days=20)}


def _tool_grants(agents: list[Identity], tools: list[Identity], count: int, now: datetime) -> Any:
    """Spread evenly; one in ten was revoked, one in ten has ended."""
    for number in range(count):
        place, turn = number % len(agents), number // len(agents)
        ended = {0: {"revoked_at": now - timedelta(days=1)}, 1: {"expires_at": now - timedelta(days=1)}}
        yield ToolPermission(
            agent=agents[place],
            tool=tools[(place * 7 + turn) % len(tools)],
            **_given(now),
            **(ended.get(turn % 10, {}) if turn else {}),
        )


def _nhi_grants(agents: list[Identity], count: int, now: datetime) -> Any:
    for number in range(count):
        place, turn = number % len(agents), number // len(agents)
        yield NhiPermission(source=agents[place], target=agents[(place + turn + 1) % len(agents)], **_given(now))


def _roles(agents: list[Identity], now: datetime) -> None:
    """Fifty roles of four patterns; each agent holds one of them, the first agent the seventh."""
    roles = [Role(name=f"role-{number:02}", created_by_name="owner") for number in range(50)]
    _load(Role, roles)
    patterns = []
    for number, role in enumerate(roles):
        wanted = (f"s{number}.*", f"x{number}.a.b.*", f"x{number}.read", f"x{number}.write")
        patterns += [
            RoleCapability(
                role=role, pattern=text, prefix=capabilities.prefix(text), added_by_name="owner",
                approved_at=now - timedelta(days=25),
            )
            for text in wanted
        ]  # fmt: skip
    _load(RoleCapability, patterns)
    _load(
        RoleAssignment,
        (
            RoleAssignment(role=roles[(number + 7) % 50], identity=agent, **_given(now))
            for number, agent in enumerate(agents)
        ),
    )


def _credentials(agents: list[Identity], now: datetime) -> Any:
    return (_credential(agent, None, now) for agent in agents)


def _credential(agent: Identity, made: tokens.NewCredentialToken | None, now: datetime) -> Credential:
    return Credential(
        identity=agent,
        public_id=made.public_id if made else agent.pk.hex[:32],
        digest=made.digest if made else b"0" * 32,
        expires_at=now + timedelta(days=30),
        created_by_name="owner",
    )
