"""Sets cases up in the database: all their rows in a few bulk inserts, each case with identities of its own."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from common.db import clock
from common.ids import uuid7
from nhi.authorization import facts
from nhi.choices import Kind, PermissionType
from nhi.credentials import tokens
from nhi.decisions import capabilities, engine, types
from nhi.models import (
    Credential,
    Identity,
    NhiPermission,
    Role,
    RoleAssignment,
    RoleCapability,
    ToolPermission,
    User,
)
from tests.nhi.decisions.table import Case, Expected, Holder, Pattern

KINDS = {"agent": Kind.AGENT, "service account": Kind.SERVICE_ACCOUNT, "tool": Kind.TOOL}
LONG_AGO, REMOVED, EARLIER, ENDED = timedelta(days=10), timedelta(days=3), timedelta(days=2), timedelta(hours=1)
CLOSED = timedelta(days=1)
SOURCES = {
    "allowed network": "192.0.2.7",
    "allowed network of version 6": "2001:db8::7",
    "allowed network mapped": "::ffff:192.0.2.7",
    "other network": "198.51.100.1",
    "no address": "",
}
NETWORKS = ["192.0.2.0/24", "2001:db8::/32"]
AUDIENCE, OTHER_AUDIENCE = "https://gatehouse.example/mcp", "https://elsewhere.example/"


@dataclass
class Staged:
    """A case whose rows are in the database, ready to be asked."""

    case: Case
    caller_id: UUID
    target_id: UUID
    shown: str
    source: str

    def decide(self) -> types.Decision:
        loaded = self._load()
        verb: Any = "know_itself" if self.case.verb == "know itself" else "call"
        action = types.RequestedAction(verb, self.case.arguments, self.case.action or None)
        target = loaded.target if verb == "call" else None
        return engine.decide(loaded.caller, action, target, loaded.facts)

    def _load(self) -> facts.LoadedFacts:
        if self.case.credential == "none":
            return facts.for_question(self.caller_id, self.target_id)
        parsed = tokens.parse(self.shown)
        assert parsed is not None
        wanted = self.target_id if self.case.verb == "call" else None
        return facts.for_token(parsed, self.source, wanted, audience=AUDIENCE)


def answer(decision: types.Decision) -> Expected:
    """A decision in the table's words."""
    if decision.allowed:
        by = decision.match.kind if decision.match else "self"
    else:
        by = decision.failed_check.name if decision.failed_check else "error"
    return Expected(decision.verdict.value, decision.reason, by)


@dataclass
class Stage:
    now: datetime
    owner: User
    rows: dict[type, list[Any]] = field(default_factory=lambda: defaultdict(list))
    people: dict[str, User] = field(default_factory=dict)

    def put(self, row: Any) -> Any:
        self.rows[type(row)].append(row)
        return row

    def store(self) -> None:
        order = (Identity, Credential, ToolPermission, NhiPermission, Role, RoleCapability, RoleAssignment)
        for model in order:
            model.objects.bulk_create(self.rows[model], batch_size=500)


def stage(cases: list[Case]) -> list[Staged]:
    set_up = Stage(clock.database_now(), User.objects.create(username="owner-of-the-table"))
    staged = [_stage(set_up, number, case) for number, case in enumerate(cases)]
    set_up.store()
    return staged


def _stage(on: Stage, number: int, case: Case) -> Staged:
    caller = None if case.calling.kind == "person" else _identity(on, f"caller-{number}", case.calling)
    target = _identity(on, f"target-{number}", case.called) if case.called else None
    if caller is not None and target is not None:
        _grants(on, case, caller, target)
    if caller is not None:
        _roles(on, number, case, caller)
    user = None if caller else User.objects.create(username=f"person-{number}", is_active=False)
    credential, shown = _credential(on, case, caller, user)
    source = next((SOURCES[word] for word in case.credential.split(", ") if word in SOURCES), "203.0.113.9")
    if case.token and caller is not None:
        shown = tokens.mint_short_token(_token(on, case, caller, credential))
    return Staged(case, caller.pk if caller else uuid7(), target.pk if target else uuid7(), shown, source)


def _identity(on: Stage, name: str, told: Holder) -> Identity:
    ends = {"ended": on.now - ENDED, "ending": on.now + ENDED, "": None}[told.ends]
    tool = told.kind == "tool"
    row = Identity(
        kind=KINDS[told.kind], name=f"srv__{name}" if tool else name, owner=on.owner, state=told.state, expires_at=ends,
        capability=told.capability if tool else None, created_at=on.now - LONG_AGO, created_by_name="table",
    )  # fmt: skip
    on.put(row)
    return row


def _times(on: Stage, state: str, number: int = 0) -> dict[str, Any]:
    """The columns of a row that is in this state now; what comes later in a list was closed later."""
    closed = on.now - CLOSED + timedelta(minutes=number)
    made = {"created_at": on.now - LONG_AGO + timedelta(minutes=number)}
    return (
        made
        | {
            "live": {},
            "rotated": {"rotated_at": on.now - ENDED, "expires_at": on.now + ENDED},
            "ending": {"expires_at": on.now + ENDED},
            "expired": {"expires_at": on.now - ENDED},
            "revoked": {"revoked_at": closed},
            "closed after its end": {"revoked_at": closed, "expires_at": on.now - EARLIER},
        }[state]
    )


def _credential(on: Stage, case: Case, caller: Identity | None, user: User | None) -> tuple[Credential, str]:
    words = case.credential.split(", ")
    state = next((word for word in words if word in {"rotated", "revoked", "expired", "closed after its end"}), "live")
    made = tokens.make_credential_token("usr" if user else "svc" if case.calling.kind == "service account" else "agt")
    times = {"expires_at": on.now + LONG_AGO, **_times(on, state)}
    narrowed = any("network" in word or "address" in word for word in words)
    row = Credential(
        identity=caller, user=user, public_id=made.public_id, digest=made.digest, created_by_name="table",
        allowed_networks=NETWORKS if narrowed else [], **times,
    )  # fmt: skip
    if "unknown" not in words:
        on.put(row)
    return row, _with_another_secret(made) if "wrong secret" in words else made.token


def _with_another_secret(made: tokens.NewCredentialToken) -> str:
    body = made.token[: -tokens.CRC_LENGTH]
    body = body[:-1] + ("A" if body[-1] != "A" else "B")
    return body + tokens.checksum(body)


def _token(on: Stage, case: Case, caller: Identity, credential: Credential) -> tokens.ShortTokenClaims:
    stamp = on.now.timestamp() * 1000
    minute = 60_000
    if case.made.startswith("made"):
        caller.tokens_from = on.now - timedelta(minutes=5)
    issued = stamp - (10 if case.made == "made before a stop" else 1) * minute
    audience = {"for this service": AUDIENCE, "for another service": OTHER_AUDIENCE}.get(case.made, "")
    return tokens.ShortTokenClaims(
        identity_id=uuid7() if case.made == "of another identity" else caller.pk,
        credential_id=credential.pk,
        issued=int(issued),
        expires=int(stamp - minute if case.made == "expired" else stamp + 15 * minute),
        scope=" ".join(case.scope),
        audience=audience,
    )


def _grants(on: Stage, case: Case, caller: Identity, target: Identity) -> None:
    for number, (kind, state) in enumerate(case.held):
        limits = {} if "revoked" in state or "closed" in state else case.limited.get(kind, {})
        shared = {"reason": "table", "granted_by_name": "table", "max_calls_per_hour": limits.get("per_hour")}
        shared |= _times(on, state, number)
        if kind == "tool":
            own = {"allowed_parameters": limits.get("parameters"), "requires_approval": bool(limits.get("approval"))}
            on.put(ToolPermission(agent=caller, tool=target, **shared, **own))
        else:
            own = {"permission_type": PermissionType(kind), "allowed_actions": limits.get("actions")}
            on.put(NhiPermission(source=caller, target=target, **shared, **own))


def _roles(on: Stage, number: int, case: Case, caller: Identity) -> None:
    for place, told in enumerate(case.assigned):
        role = on.put(Role(name=f"role-{number}-{place}", created_by_name="table"))
        for pattern in told.patterns:
            _pattern(on, role, pattern)
        on.put(
            RoleAssignment(
                role=role, identity=caller, reason="table", granted_by_name="table", **_times(on, told.state, place)
            )
        )


def _pattern(on: Stage, role: Role, told: Pattern) -> None:
    approved = None if "waiting" in told.marks else on.now - LONG_AGO
    removed = on.now - REMOVED if "removed" in told.marks else None
    on.put(
        RoleCapability(
            role=role, pattern=told.text, prefix=capabilities.prefix(told.text), added_by_name="table",
            approved_at=approved, removed_at=removed,
        )
    )  # fmt: skip
