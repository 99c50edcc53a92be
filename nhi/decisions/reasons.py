"""Every reason code of a decision and its remedy."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DecisionReason:
    #: Whether a decision with this reason allows the call.
    allows: bool
    #: The next step, for readers who may see the objects; {caller} and {target} are names.
    remedy: str = ""


#: Reasons from identities, credentials, grants and roles.
ACCESS_REASONS: dict[str, DecisionReason] = {
    # Reasons that allow.
    "granted": DecisionReason(allows=True),
    "role": DecisionReason(allows=True),
    "self": DecisionReason(allows=True),
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
    "no_grant": DecisionReason(False, "Give {caller} access to {target}, or a role that covers it."),
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
    "invalid_parameters": DecisionReason(False, "Call with arguments that the schema of {target} describes."),
    "approval_required": DecisionReason(False, "Ask an approver to approve this call, then send it again."),
    "approval_refused": DecisionReason(False, "An approver refused this call; find out why before asking again."),
    # The server behind the tool, and its budgets.
    "breaker_open": DecisionReason(False, "Wait for the next probe, or look at why the server of {target} fails."),
    "rate_exceeded": DecisionReason(False, "Call more slowly, or raise the rate of the budget."),
    "concurrency_exceeded": DecisionReason(
        False, "Wait until a call in flight has ended, or raise the budget's concurrency."
    ),
    "quota_exceeded": DecisionReason(False, "Wait until the quota frees up, or raise it."),
}
REASONS: dict[str, DecisionReason] = {**ACCESS_REASONS, **CONDITION_REASONS}
#: Remedies by (check, reason), for reasons that several checks share.
REMEDIES_OF_CHECKS = {("server", "target_unusable"): "Add the server that offers {target}."}


def remedy(reason: str, *, check: str, caller: str, target: str) -> str:
    """Return what would make the failed check pass."""
    sentence = REMEDIES_OF_CHECKS.get((check, reason), REASONS[reason].remedy)
    return sentence.format(caller=caller, target=target)
