"""Every reason a decision can give: its sentence's kind, and what would make it pass."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    #: Whether a decision with this reason lets the call pass.
    allows: bool
    #: What to do next, said to those who may see the objects; {caller} and {target} are names.
    remedy: str = ""


REASONS: dict[str, Reason] = {
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
    "not_enforceable_yet": Reason(False, "Give the grant without this limit; Gatehouse cannot enforce it yet."),
    # Something broke: never an allow.
    "decision_failed": Reason(False, "Ask an operator, with the request id."),
}
