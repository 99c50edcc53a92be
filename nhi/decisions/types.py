"""The words in which a decision is asked for and given: plain facts, no behaviour of theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from nhi.choices import Verdict

CheckOutcome = Literal["pass", "fail", "skip"]


@dataclass(frozen=True)
class DecisionParty:
    """A caller or a target as the facts query saw it."""

    id: UUID
    kind: str
    name: str
    state: str
    expired: bool = False
    capability: str | None = None


@dataclass(frozen=True)
class AccessMatch:
    """A grant or role that covers the target, live or not, with its limits."""

    kind: Literal["grant", "role"]
    id: UUID
    name: str
    expired: bool = False
    revoked: bool = False
    expires_at: datetime | None = None
    allowed_parameters: dict[str, Any] | None = None
    allowed_actions: list[str] | None = None
    max_calls_per_hour: int | None = None
    requires_approval: bool = False
    role_id: UUID | None = None
    #: Of a grant between identities: what is called acts on the caller's behalf.
    delegates: bool = False

    @property
    def live(self) -> bool:
        return not self.expired and not self.revoked


@dataclass(frozen=True)
class CallCondition:
    """What only a higher app knows of a call: whether the server is enabled, the definition approved, and the like."""

    name: str
    ok: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class RequestedAction:
    """What the caller wants: to know itself, or to call the target."""

    verb: Literal["know_itself", "call"]
    parameters: Any = None
    #: The task type or tool name that a grant between identities is limited by.
    name: str | None = None
    #: Where the parameters break a grant's schema, by the grant's id, for who has checked them before; a schema that
    #: is missing here is checked on the spot.
    known_violations: Mapping[UUID, Sequence[tuple[str, str]]] = field(default_factory=dict)


@dataclass(frozen=True)
class DecisionFacts:
    """Everything a decision rests on, read in one query at `decided_at`."""

    decision_id: UUID
    decided_at: datetime
    #: The reason for which the credential was refused; empty for a live one, None when nobody shows one. No default:
    #: facts that were never read must not pass for a live credential.
    credential_refusal: str | None
    #: The short-lived token's scope: capability patterns; empty for all.
    scope: tuple[str, ...] = ()
    matches: tuple[AccessMatch, ...] = ()
    #: In the order of CHECKS, one for each name at most.
    conditions: tuple[CallCondition, ...] = ()

    def condition(self, name: str) -> CallCondition | None:
        return next((one for one in self.conditions if one.name == name), None)


@dataclass(frozen=True)
class CheckResult:
    name: str
    outcome: CheckOutcome
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Decision:
    id: UUID
    verdict: Verdict
    reason: str
    message: str
    decided_at: datetime
    match: AccessMatch | None = None
    checks: tuple[CheckResult, ...] = field(default=(), compare=False)

    @property
    def allowed(self) -> bool:
        return self.verdict == Verdict.ALLOW

    @property
    def failed_check(self) -> CheckResult | None:
        return next((check for check in self.checks if check.outcome == "fail"), None)
