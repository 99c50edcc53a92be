"""Input and output types of a decision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from nhi.choices import Verdict

CheckOutcome = Literal["pass", "fail", "skip"]


@dataclass(frozen=True)
class CallerOrTarget:
    """A caller or a target, as read by the facts query."""

    id: UUID
    kind: str
    name: str
    state: str
    expired: bool = False
    capability: str | None = None


@dataclass(frozen=True)
class AccessMatch:
    """A grant or role that covers the target, with its limits. It may be expired or revoked."""

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
    #: For a grant between identities: the target acts on the caller's behalf.
    delegates: bool = False

    @property
    def live(self) -> bool:
        return not self.expired and not self.revoked


@dataclass(frozen=True)
class ConditionResult:
    """The result of a condition that is evaluated outside the engine, for example whether the server is enabled."""

    name: str
    ok: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class RequestedAction:
    """The requested action: to read the caller's own identity, or to call the target."""

    verb: Literal["know_itself", "call"]
    parameters: Any = None
    #: The task type or tool name, which a grant between identities may limit.
    name: str | None = None
    #: Violations of grants' schemas that the caller of `decide` has already computed, by the grant's id. The engine
    #: checks any schema that is missing here.
    known_violations: Mapping[UUID, Sequence[tuple[str, str]]] = field(default_factory=dict)


@dataclass(frozen=True)
class DecisionFacts:
    """All inputs of a decision, read in one query at `decided_at`."""

    decision_id: UUID
    decided_at: datetime
    #: The reason why the credential was refused; empty for a live one, None if the question involves no credential.
    #: No default: facts that were never read must not count as a live credential.
    credential_refusal: str | None
    #: The short-lived token's scope as capability patterns; empty for all.
    scope: tuple[str, ...] = ()
    matches: tuple[AccessMatch, ...] = ()
    #: In the order of CHECKS, at most one for each name.
    conditions: tuple[ConditionResult, ...] = ()

    def condition(self, name: str) -> ConditionResult | None:
        return next((item for item in self.conditions if item.name == name), None)


@dataclass(frozen=True)
class CheckResult:
    """The result of one check. `reason` is the reason code of a failure."""

    name: str
    outcome: CheckOutcome
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Decision:
    """The answer of the engine. `match` is the grant or role that decided, if any covers the target."""

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
