"""The one query that loads credential, caller, target and covering grants for a decision.

The query is the linearization point: it sets `decided_at`, and a request that arrives after the response to a
revocation reads the revoked row.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import DateTimeField, F, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, Greatest, JSONObject, Least, Now, NullIf

from common.db import clock
from common.fastsql.compiled_queries import PreparedQuery
from common.ids import uuid7
from nhi.choices import Kind, PermissionType
from nhi.credentials import credentials, tokens
from nhi.decisions.delegation import ChainLink, Principal
from nhi.decisions.types import AccessMatch, CallerOrTarget, DecisionFacts
from nhi.models import Credential, Identity, NhiPermission, RoleAssignment, ToolPermission, User

PARTY_COLUMNS = ("id", "kind", "name", "state", "expires_at", "capability")
END_COLUMNS = {"id": "id", "expires_at": "expires_at", "revoked_at": "revoked_at"}
GRANT_COLUMNS = {**END_COLUMNS, "name": "granted_by_name", "max_calls_per_hour": "max_calls_per_hour"}
ROLE_COLUMNS = {**END_COLUMNS, "revoked_at": "closed", "name": "role__name", "role_id": "role_id"}
NEVER = Value(datetime(9999, 1, 1, tzinfo=UTC), DateTimeField())


@dataclass(frozen=True)
class LoadedFacts:
    """The facts for `decide`, with the identity or person, credential and token that the same query read."""

    facts: DecisionFacts
    caller: CallerOrTarget | None = None
    target: CallerOrTarget | None = None
    identity: Identity | None = None
    user: User | None = None
    credential: Credential | None = None
    token: tokens.ShortTokenClaims | None = None

    @property
    def is_narrowed(self) -> bool:
        """Whether the token is limited to a scope or a run. Such a token carries no console role."""
        return bool(self.facts.scope) or self.run_id is not None

    @property
    def run_id(self) -> UUID | None:
        """The run that the token was issued for."""
        return self.token.execution_id if self.token is not None else None


def for_token(
    bearer_token: tokens.ParsedBearerToken, source: str, target_id: UUID | None = None, *, audience: str = ""
) -> LoadedFacts:
    """Load the facts for a token and, optionally, for a call of `target_id`."""
    row = _credential_row(bearer_token, target_id)
    if row is None:
        return LoadedFacts(DecisionFacts(uuid7(), clock.database_now(), "credential_unknown"))
    now = clock.parse_database_time(row.facts_now)
    refusal = credentials.refusal_reason(_credential_facts(row, now), bearer_token, source, now)
    short_token = bearer_token if isinstance(bearer_token, tokens.ShortTokenClaims) else None
    tokens_from = row.identity.tokens_from if row.identity else None
    refusal = refusal or token_refusal_reason(short_token, tokens_from, audience) or _person_refusal_reason(row.user)
    scope = tuple(short_token.scope.split()) if short_token else ()
    facts = DecisionFacts(uuid7(), now, refusal, scope, _read_matches(row, now))
    caller = _party_from_identity(row.identity, now) if row.identity else None
    return LoadedFacts(facts, caller, _read_target(row, now), row.identity, row.user, row, short_token)


def for_question(caller_id: UUID, target_id: UUID, *, at: datetime | None = None) -> LoadedFacts:
    """Load the facts for a question without a credential, for now or for a time in the future."""
    row = _CALLER_AND_TARGET_QUERY.fetch_first(caller=caller_id, target=target_id)
    if row is None:
        return LoadedFacts(DecisionFacts(uuid7(), clock.database_now(), None))
    decided_at = clock.parse_database_time(row.facts_now)
    now = at or decided_at
    facts = DecisionFacts(uuid7(), decided_at, None, (), _read_matches(row, now))
    return LoadedFacts(facts, _party_from_identity(row, now), _read_target(row, now), row)


def for_principals(principals: Sequence[ChainLink], target_id: UUID, *, at: datetime | None = None) -> list[Principal]:
    """Load the principals with their own grants and roles for the target, in the given order."""
    rows = Identity.objects.filter(pk__in=[link.id for link in principals])
    rows_by_id = {row.pk: row for row in _annotate_access(rows, OuterRef("pk"), target_id)} if principals else {}
    return [_principal(link, rows_by_id.get(link.id), at) for link in principals]


def _principal(link: ChainLink, row: Any, at: datetime | None) -> Principal:
    if row is None:
        return Principal(link.name, None)
    now = at or clock.parse_database_time(row.facts_now)
    return Principal(link.name, _party_from_identity(row, now), _read_matches(row, now))


def _credential_row(bearer_token: tokens.ParsedBearerToken, target_id: UUID | None) -> Any:
    """Load the credential and its holder. The token's prefix determines the holder's table; the other is not read."""
    values: dict[str, Any] = {} if target_id is None else {"target": target_id}
    if isinstance(bearer_token, tokens.ShortTokenClaims):
        values |= {"credential": bearer_token.credential_id, "identity": bearer_token.identity_id}
        return _short_token_query(
            of_run=bool(bearer_token.execution_id), with_target=target_id is not None
        ).fetch_first(**values)
    holder = "user" if bearer_token.prefix == "usr" else "identity"
    return _credential_query(holder, with_target=target_id is not None).fetch_first(
        **values, public=bearer_token.public_id
    )


@cache
def _short_token_query(*, of_run: bool, with_target: bool) -> PreparedQuery:
    def rows(credential: UUID, identity: UUID, target: UUID | None = None) -> Any:
        manager = Credential.runs if of_run else Credential.objects
        queryset = manager.filter(pk=credential, identity_id=identity).select_related("identity")
        return _annotate_access(queryset, OuterRef("identity_id"), target)

    return PreparedQuery(rows, credential=UUID, identity=UUID, **_target_parameter(with_target))


@cache
def _credential_query(holder: str, *, with_target: bool) -> PreparedQuery:
    def rows(public: str, target: UUID | None = None) -> Any:
        queryset = Credential.objects.filter(public_id=public, **{f"{holder}__isnull": False})
        return _annotate_access(queryset.select_related(holder), OuterRef("identity_id"), target)

    return PreparedQuery(rows, public=str, **_target_parameter(with_target))


def _target_parameter(with_target: bool) -> dict[str, type]:
    return {"target": UUID} if with_target else {}


def _annotate_access(rows: Any, caller: OuterRef, target_id: UUID | None) -> Any:
    rows = rows.annotate(facts_now=Now()).order_by()
    if target_id is None:
        return rows
    target = Identity.objects.filter(pk=target_id)
    tool = _open_or_last_revoked(ToolPermission.objects.filter(agent=caller, tool=target_id))
    actions = {**GRANT_COLUMNS, "allowed_actions": "allowed_actions"}
    return rows.annotate(
        facts_target=_first_as_json(target, {name: name for name in PARTY_COLUMNS}),
        facts_tool=_first_as_json(
            tool, {**GRANT_COLUMNS, **{name: name for name in ("allowed_parameters", "requires_approval")}}
        ),
        facts_call=_first_as_json(_grants_between(caller, target_id, PermissionType.CALL), actions),
        facts_delegate=_first_as_json(_grants_between(caller, target_id, PermissionType.DELEGATE), actions),
        facts_role=_first_as_json(_covering_assignments(caller, target), ROLE_COLUMNS),
    )


def _first_as_json(rows: QuerySet[Any], columns: dict[str, str]) -> Subquery:
    """Return the first row of a subquery as one JSON object."""
    json_object = JSONObject(**{name: F(column) for name, column in columns.items()})
    return Subquery(rows.annotate(found=json_object).values("found")[:1])


def _open_or_last_revoked(rows: Any) -> Any:
    """Order the unrevoked row of a pair first, else the last revoked one, which proves earlier access."""
    return rows.order_by(F("revoked_at").desc(nulls_first=True), "-created_at")


def _grants_between(caller: OuterRef, target_id: UUID, kind: PermissionType) -> Any:
    return _open_or_last_revoked(NhiPermission.objects.filter(source=caller, target=target_id, permission_type=kind))


def _covering_assignments(caller: OuterRef, target: QuerySet[Identity]) -> Any:
    """Return the assignments that cover or covered the target for the caller, live and longest ones first.

    Assignment, pattern and tool must have existed at the same time: a role that ended before the tool was registered
    never covered it.
    """
    tool = target.filter(kind=Kind.TOOL)
    assignments = RoleAssignment.objects.filter(identity=caller).annotate(wanted=Subquery(tool.values("capability")))
    exact = Q(role__capabilities__prefix=None, role__capabilities__pattern=F("wanted"))
    wide = Q(role__capabilities__prefix__isnull=False, wanted__startswith=F("role__capabilities__prefix"))
    covering = assignments.filter(exact | wide, role__capabilities__approved_at__isnull=False).annotate(
        began=Greatest("created_at", "role__capabilities__approved_at", Subquery(tool.values("created_at"))),
        ended=Least(_or_never("revoked_at"), _or_never("role__capabilities__removed_at")),
        closed=NullIf("ended", NEVER),
    )
    at_one_time = covering.filter(began__lt=Least("ended", _or_never("expires_at")))
    return at_one_time.order_by("-ended", F("expires_at").desc(nulls_first=True))


def _or_never(column: str) -> Coalesce:
    return Coalesce(column, NEVER)


_CALLER_AND_TARGET_QUERY = PreparedQuery(
    lambda caller, target: _annotate_access(Identity.objects.filter(pk=caller), OuterRef("pk"), target),
    caller=UUID, target=UUID,
)  # fmt: skip


def _read_matches(row: Any, now: datetime) -> tuple[AccessMatch, ...]:
    candidates = (
        _read_match(row, "facts_tool", "grant", now),
        _read_match(row, "facts_call", "grant", now),
        _read_match(row, "facts_delegate", "grant", now, delegates=True),
        _read_match(row, "facts_role", "role", now),
    )
    return tuple(match for match in candidates if match is not None)


def _read_match(row: Any, column: str, kind: Any, now: datetime, *, delegates: bool = False) -> AccessMatch | None:
    data = _decode_json(getattr(row, column, None))
    if data is None:
        return None
    expires_at = clock.parse_database_time(data["expires_at"]) if data["expires_at"] else None
    revoked_at = clock.parse_database_time(data["revoked_at"]) if data["revoked_at"] else None
    is_expired = expires_at is not None and (expires_at <= now if revoked_at is None else revoked_at >= expires_at)
    return AccessMatch(
        kind=kind,
        id=UUID(data["id"]),
        name=f"by {data['name']}" if kind == "grant" else data["name"],
        expired=is_expired,
        revoked=revoked_at is not None and not is_expired,
        expires_at=expires_at,
        allowed_parameters=_decode_json(data.get("allowed_parameters")),
        allowed_actions=_decode_json(data.get("allowed_actions")),
        max_calls_per_hour=data.get("max_calls_per_hour"),
        requires_approval=bool(data.get("requires_approval")),
        role_id=UUID(data["role_id"]) if kind == "role" else None,
        delegates=delegates,
    )


def _read_target(row: Any, now: datetime) -> CallerOrTarget | None:
    data = _decode_json(getattr(row, "facts_target", None))
    if data is None:
        return None
    expires_at = clock.parse_database_time(data["expires_at"]) if data["expires_at"] else None
    is_expired = expires_at is not None and expires_at <= now
    return CallerOrTarget(UUID(data["id"]), data["kind"], data["name"], data["state"], is_expired, data["capability"])


def _party_from_identity(identity: Identity, now: datetime) -> CallerOrTarget:
    is_expired = identity.expires_at is not None and identity.expires_at <= now
    return CallerOrTarget(identity.pk, identity.kind, identity.name, identity.state, is_expired, identity.capability)


def _credential_facts(row: Credential, now: datetime) -> credentials.CredentialFacts:
    state = row.state_at(now)
    return credentials.CredentialFacts(
        digest=bytes(row.digest),
        live=state == "live",
        expired=state == "expired",
        revoked=state == "revoked",
        networks=tuple(row.allowed_networks),
    )


def token_refusal_reason(token: tokens.ShortTokenClaims | None, tokens_from: datetime | None, audience: str) -> str:
    """Return why a short-lived token is refused although its credential is live; empty if it is accepted."""
    if token is None:
        return ""
    if tokens_from is not None and token.issued <= tokens_from.timestamp() * 1000:
        return "token_stopped"
    return "audience_not_allowed" if token.audience and token.audience != audience else ""


def _person_refusal_reason(user: User | None) -> str:
    return "person_inactive" if user is not None and not user.is_active else ""


def _decode_json(value: Any) -> Any:
    """Decode JSON columns, which SQLite returns as text and PostgreSQL as objects."""
    return json.loads(value) if isinstance(value, str) else value
