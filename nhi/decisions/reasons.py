"""Every reason code of a decision or a call: how it is logged and answered, and what to do about it.

A reason is also the value of the label `reason` in metrics.
"""

from dataclasses import dataclass

from nhi.choices import CallStatus


@dataclass(frozen=True)
class ReasonOutcome:
    """How calls with a reason are logged and answered: log status, error code and REST status."""

    log_status: CallStatus
    error_code: str
    rest_status: int
    #: The call was sent and failed. Otherwise nothing was sent, or access ended during the call.
    failed: bool = False


ALLOWED = ReasonOutcome(CallStatus.SUCCESS, "", 200)
DENIED = ReasonOutcome(CallStatus.PERMISSION_DENIED, "Unauthorized", 403)
#: The caller may not know the target: the answer is the same as for a target that does not exist.
HIDDEN = ReasonOutcome(CallStatus.PERMISSION_DENIED, "NotFound", 404)
WAITING = ReasonOutcome(CallStatus.PERMISSION_DENIED, "Unauthorized", 202)
INVALID = ReasonOutcome(CallStatus.ERROR, "InvalidParameters", 400)
LIMITED = ReasonOutcome(CallStatus.RATE_LIMITED, "RateLimitExceeded", 429)
UNAVAILABLE = ReasonOutcome(CallStatus.ERROR, "ExecutionFailed", 503)
FAILED = ReasonOutcome(CallStatus.ERROR, "ExecutionFailed", 502, failed=True)
TIMED_OUT = ReasonOutcome(CallStatus.ERROR, "Timeout", 504, failed=True)
CANCELLED = ReasonOutcome(CallStatus.ERROR, "ExecutionFailed", 499, failed=True)
UNEXPECTED = ReasonOutcome(CallStatus.ERROR, "InternalError", 500, failed=True)
#: The caller's access ended during the call.
STOPPED = ReasonOutcome(CallStatus.ERROR, "Unauthorized", 403)


@dataclass(frozen=True)
class DecisionReason:
    """What one reason code means for the call, its log row and its answer."""

    #: Whether a decision with this reason allows the call.
    allows: bool
    #: The next step, for readers who may see the objects; {caller} and {target} are names.
    remedy: str = ""
    outcome: ReasonOutcome = DENIED


#: Reasons from identities, credentials, grants and roles.
ACCESS_REASONS: dict[str, DecisionReason] = {
    # Reasons that allow.
    "granted": DecisionReason(allows=True, outcome=ALLOWED),
    "role": DecisionReason(allows=True, outcome=ALLOWED),
    "self": DecisionReason(allows=True, outcome=ALLOWED),
    # The credential.
    "credential_unknown": DecisionReason(False, "Issue a credential for {caller} and send it whole."),
    "credential_revoked": DecisionReason(False, "Issue a new credential for {caller}."),
    "credential_expired": DecisionReason(False, "Issue a new credential for {caller}."),
    "network_not_allowed": DecisionReason(
        False, "Call from a network the credential allows, or issue one that allows this network."
    ),
    "token_expired": DecisionReason(False, "Exchange the credential for a new short-lived token."),
    "token_stopped": DecisionReason(False, "Exchange the credential for a new short-lived token."),
    "audience_not_allowed": DecisionReason(False, "Ask for a token whose audience is this service."),
    "person_inactive": DecisionReason(False, "Ask a security admin to reactivate {caller}."),
    # The caller.
    "caller_inactive": DecisionReason(False, "Activate {caller}."),
    "caller_suspended": DecisionReason(False, "Find out why {caller} was suspended, then activate it."),
    "caller_deprecated": DecisionReason(
        False, "Use the identity that replaced {caller}; a deprecated one does not come back."
    ),
    "caller_archived": DecisionReason(False, "Register a new identity; an archived one does not come back."),
    "caller_expired": DecisionReason(False, "Extend the end of {caller}."),
    # The grant or role.
    "no_grant": DecisionReason(False, "Give {caller} access to {target}, or a role that covers it.", HIDDEN),
    "grant_expired": DecisionReason(False, "Give {caller} access to {target} again."),
    "grant_revoked": DecisionReason(
        False, "Give {caller} access to {target} again, if the reason for revoking is gone."
    ),
    "role_expired": DecisionReason(False, "Assign the role to {caller} again."),
    "role_revoked": DecisionReason(False, "Assign the role to {caller} again, if the reason for revoking is gone."),
    "scope_not_allowed": DecisionReason(False, "Ask for a token whose scope covers {target}."),
    # The target.
    "target_unusable": DecisionReason(False, "Activate {target}."),
    "target_expired": DecisionReason(False, "Extend the end of {target}."),
    # The limits of the grant.
    "parameters_not_allowed": DecisionReason(
        False, "Call with arguments that the grant allows, or edit the grant's limits."
    ),
    "action_not_allowed": DecisionReason(
        False, "Ask for an action that the grant allows, or give a grant that allows this one."
    ),
    "action_not_named": DecisionReason(
        False, "Say what is asked for: a task's type, which is `task_type`, and over A2A `metadata.task_type`."
    ),
    "not_enforceable_yet": DecisionReason(
        False, "Send a task, which the limit counts, or give the grant without this limit."
    ),
    # An internal error; never allows.
    "decision_failed": DecisionReason(False, "Ask an operator, with the request id."),
}
#: Reasons from conditions that higher apps pass to the decision.
CONDITION_REASONS: dict[str, DecisionReason] = {
    # The server behind a tool, and the tool's definition.
    "server_disabled": DecisionReason(False, "Enable the server of {target}."),
    "definition_pending": DecisionReason(False, "Approve the definition of {target}."),
    "definition_changed": DecisionReason(False, "Look at what changed in {target}, and approve it if it is right."),
    "definition_withdrawn": DecisionReason(False, "Its server no longer offers {target}; use another tool."),
    # The chain of tasks in which the call is made.
    "chain_cycle": DecisionReason(False, "Let an agent that is not in the chain already do this."),
    "chain_depth": DecisionReason(False, "Ask from nearer to the top; a chain of tasks is at most five deep."),
    "chain_no_grant": DecisionReason(
        False, "Give each of those on whose behalf {caller} acts access to {target}, too."
    ),
    "chain_unusable": DecisionReason(False, "Activate the one on whose behalf {caller} acts, or let another ask."),
    "chain_not_allowed": DecisionReason(
        False, "Ask for what those on whose behalf {caller} acts are allowed of {target}."
    ),
    "task_not_yours": DecisionReason(False, "Name an open task that {caller} works on, or none."),
    "task_ended": DecisionReason(False, "Ask within a task that is still open, or within none."),
    # The arguments and their approval.
    "invalid_parameters": DecisionReason(False, "Call with arguments that the schema of {target} describes.", INVALID),
    "approval_required": DecisionReason(False, "Ask an approver to approve this call, then send it again.", WAITING),
    "approval_refused": DecisionReason(False, "An approver refused this call; find out why before asking again."),
    # The server behind the tool, and its budgets.
    "breaker_open": DecisionReason(
        False, "Wait for the next probe, or look at why the server of {target} fails.", UNAVAILABLE
    ),
    "rate_exceeded": DecisionReason(False, "Call more slowly, or raise the rate of the budget.", LIMITED),
    "concurrency_exceeded": DecisionReason(
        False, "Wait until a call in flight has ended, or raise the budget's concurrency.", LIMITED
    ),
    "quota_exceeded": DecisionReason(False, "Wait until the quota frees up, or raise it.", LIMITED),
}
REASONS: dict[str, DecisionReason] = {**ACCESS_REASONS, **CONDITION_REASONS}
#: Reasons of calls that were sent, by what became of them.
RESULT_REASONS: dict[str, ReasonOutcome] = {
    "tool_error": FAILED,
    "upstream": FAILED,
    "unreadable": FAILED,
    "timeout": TIMED_OUT,
    "lost": TIMED_OUT,
    "cancelled": CANCELLED,
    "unexpected": UNEXPECTED,
    "revoked_in_flight": STOPPED,
}
#: Of a token that has no valid form. No decision is made, and the attempt is only counted.
MALFORMED = "malformed"
ALL_REASONS = frozenset({*REASONS, *RESULT_REASONS, MALFORMED})
#: Remedies by (check, reason), for reasons that several checks share.
REMEDIES_OF_CHECKS = {("server", "target_unusable"): "Add the server that offers {target}."}


def remedy(reason: str, *, check: str, caller: str, target: str) -> str:
    """Return what would make the failed check pass."""
    sentence = REMEDIES_OF_CHECKS.get((check, reason), REASONS[reason].remedy)
    return sentence.format(caller=caller, target=target)


def outcome_of(reason: str) -> ReasonOutcome:
    """Return how a call with this reason is logged and answered. An unknown reason counts as a denial."""
    if reason in RESULT_REASONS:
        return RESULT_REASONS[reason]
    return REASONS[reason].outcome if reason in REASONS else DENIED
