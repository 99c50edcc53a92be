"""What this version promises: each id, its sentence, and one way to break it that its tests must notice.

A mutation names an attribute and what becomes of it: `raise`, `return <literal>`, or `allow` for a decision. The tests
of an id run once more with its mutation applied in every process they start, and must fail.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    sentence: str
    #: `package.module:attribute = what`.
    mutation: str


CAPABILITIES: dict[str, Promise] = {
    "NHI-01": Promise(
        "Identities of three kinds have a unique name per kind, an owner, a backup owner who is another, and "
        "what describes them.",
        "nhi.identities:_check = return None",
    ),
    "NHI-02": Promise(
        "One function moves an identity through its lifecycle, by compare-and-swap, on record; an illegal "
        "move changes nothing.",
        "nhi.lifecycle:_swap = return True",
    ),
    "NHI-03": Promise(
        "Suspending or archiving ends access before the reply; what could not be stopped at once is named and swept.",
        "nhi.lifecycle:_stop = raise",
    ),
    "NHI-04": Promise(
        "Credentials are shown once, kept as a fingerprint, end, rotate with an overlap, and are refused when "
        "malformed without a query.",
        "nhi.credentials:verdict = return ''",
    ),
    "NHI-05": Promise(
        "A credential is exchanged for a short-lived token, narrowed to a scope and an audience.",
        "nhi.facts:token_refused = raise",
    ),
    "NHI-06": Promise(
        "Agent to tool grants: a duplicate is refused, wrong kinds are refused, every stored constraint is "
        "enforced or denies.",
        "nhi.decisions:_arguments = allow",
    ),
    "NHI-07": Promise(
        "Grants between identities: call or delegate, to named actions, until they end.",
        "nhi.decisions:_actions = allow",
    ),
    "NHI-08": Promise(
        "A person sees and uses only what is granted; strangers get the same answer as for an unknown id.",
        "nhi.models.identities:_granted_to = raise",
    ),
    "NHI-09": Promise(
        "Roles of capability patterns, matched on whole segments; the widest waits for a second admin.",
        "nhi.capabilities:prefix = return ''",
    ),
    "NHI-10": Promise(
        "One decision point: default deny, any error is a deny, always a reason and an id.",
        "nhi.decisions:decide = allow",
    ),
    "NHI-12": Promise(
        "Many grants at once, each with its own result; access copied from one identity to another.",
        "nhi.bulk:give_tools = return []",
    ),
    "AUD-01": Promise(
        "Every change is recorded in its own transaction, append-only down to the database's triggers.",
        "nhi.record.guards:install = return None",
    ),
    "CON-01": Promise(
        "Sign-in with lockout and a second factor; four roles; auditors change nothing anywhere, and what "
        "they open is on record.",
        "nhi.actors:Actor.only_reads = return False",
    ),
    "CON-05": Promise(
        "Every list searches, filters, saves views, acts in bulk after a page that states count and effect, "
        "exports, and teaches when empty.",
        "nhi.models.people:SavedViewQuerySet.visible_to = raise",
    ),
    "CON-06": Promise(
        "The user's time zone, dark mode, keyboard, 360 px, no accessibility violation, no request to another "
        "host, a strict policy.",
        "common.middleware:security_headers = raise",
    ),
    "OPS-01": Promise(
        "One command from a fresh machine to a running house, and one that stops everything it started.",
        "config.launcher.launch:run = raise",
    ),
    "OPS-02": Promise(
        "Settings come from the environment; unsafe or odd values stop the start.",
        "common.keys:ring = return None",
    ),
    "OPS-03": Promise(
        "Liveness, readiness that names what is down, metrics, and JSON logs with request ids.",
        "config.health:readyz = raise",
    ),
    "OPS-04": Promise(
        "OpenAPI 3.1 is served, committed and true, with examples and error responses for every operation.",
        "common.api.errors:handle = raise",
    ),
    "OPS-05": Promise(
        "Commands for what scripts need, with JSON output and exit codes.",
        "common.commands:GatehouseCommand.handle = return None",
    ),
}
