"""Every reason a decision can give: its sentence's kind, and what would make it pass."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    #: Whether a decision with this reason lets the call pass.
    allows: bool
    #: What to do next, said to those who may see the objects; {caller} and {target} are names.
    remedy: str = ""


#: Of what identities, credentials, grants and roles say.
DECIDED: dict[str, Reason] = {
    # What lets pass.
    "granted": Reason(allows=True),
    "role": Reason(allows=True),
    "self": Reason(allows=True),
    # The credential.
    "credential_unknown": Reason(False, "Issue a credential for {caller} and send it whole."),
    "credential_revoked": Reason(False, "Issue a new credential for {caller}."),
    "credential_expired": Reason(False, "Issue a new credential for {caller}."),
    "network_not_allowed": Reason(
        False, "Call from a network the credential allows, or issue one that allows this network."
    ),
    "token_expired": Reason(False, "Exchange the credential for a new short-lived token."),
    "token_stopped": Reason(False, "Exchange the credential for a new short-lived token."),
    "audience_not_allowed": Reason(False, "Ask for a token whose audience is this service."),
    "person_inactive": Reason(False, "Ask a security admin to reactivate {caller}."),
    # The caller.
    "caller_inactive": Reason(False, "Activate {caller}."),
    "caller_suspended": Reason(False, "Find out why {caller} was suspended, then activate it."),
    "caller_deprecated": Reason(False, "Use the identity that replaced {caller}; a deprecated one does not come back."),
    "caller_archived": Reason(False, "Register a new identity; an archived one does not come back."),
    "caller_expired": Reason(False, "Extend the end of {caller}."),
    # The grant or role.
    "no_grant": Reason(False, "Give {caller} access to {target}, or a role that covers it."),
    "grant_expired": Reason(False, "Give {caller} access to {target} again."),
    "grant_revoked": Reason(False, "Give {caller} access to {target} again, if the reason for revoking is gone."),
    "role_expired": Reason(False, "Assign the role to {caller} again."),
    "role_revoked": Reason(False, "Assign the role to {caller} again, if the reason for revoking is gone."),
    "scope_not_allowed": Reason(False, "Ask for a token whose scope covers {target}."),
    # The target.
    "target_unusable": Reason(False, "Activate {target}."),
    "target_expired": Reason(False, "Extend the end of {target}."),
    # What limits the grant.
    "parameters_not_allowed": Reason(False, "Call with arguments that the grant allows, or edit the grant's limits."),
    "action_not_allowed": Reason(
        False, "Ask for an action that the grant allows, or give a grant that allows this one."
    ),
    "action_not_named": Reason(
        False, "Say what is asked for: a task's type, which is `task_type`, and over A2A `metadata.task_type`."
    ),
    "not_enforceable_yet": Reason(False, "Send a task, which the limit counts, or give the grant without this limit."),
    # Something broke: never an allow.
    "decision_failed": Reason(False, "Ask an operator, with the request id."),
}
#: Of what only a higher app knows and tells the decision.
TOLD: dict[str, Reason] = {
    # The server behind a tool, and the tool's definition.
    "server_disabled": Reason(False, "Enable the server of {target}."),
    "definition_pending": Reason(False, "Approve the definition of {target}."),
    "definition_changed": Reason(False, "Look at what changed in {target}, and approve it if it is right."),
    "definition_withdrawn": Reason(False, "Its server no longer offers {target}; use another tool."),
    # The chain of tasks that the call is made from.
    "chain_cycle": Reason(False, "Let an agent that is not in the chain already do this."),
    "chain_depth": Reason(False, "Ask from nearer to the top; a chain of tasks is at most five deep."),
    "chain_no_grant": Reason(False, "Give each of those on whose behalf {caller} acts access to {target}, too."),
    "chain_unusable": Reason(False, "Activate the one on whose behalf {caller} acts, or let another ask."),
    "chain_not_allowed": Reason(False, "Ask for what those on whose behalf {caller} acts are allowed of {target}."),
    "task_not_yours": Reason(False, "Name an open task that {caller} works on, or none."),
    "task_ended": Reason(False, "Ask within a task that is still open, or within none."),
    # The arguments and the person who looks at them.
    "invalid_parameters": Reason(False, "Call with arguments that the schema of {target} describes."),
    "approval_required": Reason(False, "Ask an approver to approve this call, then send it again."),
    "approval_refused": Reason(False, "An approver refused this call; find out why before asking again."),
    # The service behind it, and how much may be called.
    "breaker_open": Reason(False, "Wait for the next probe, or look at why the server of {target} fails."),
    "rate_exceeded": Reason(False, "Call more slowly, or raise the rate of the budget."),
    "concurrency_exceeded": Reason(False, "Wait until a call in flight has ended, or raise the budget's concurrency."),
    "quota_exceeded": Reason(False, "Wait until the quota frees up, or raise it."),
}
REASONS: dict[str, Reason] = {**DECIDED, **TOLD}
#: What helps where a check gives a reason that others give too, by check and reason.
REMEDIES_OF_CHECKS = {("server", "target_unusable"): "Add the server that offers {target}."}


def remedy(reason: str, *, check: str, caller: str, target: str) -> str:
    """What would make the check pass that failed for this reason."""
    sentence = REMEDIES_OF_CHECKS.get((check, reason), REASONS[reason].remedy)
    return sentence.format(caller=caller, target=target)
