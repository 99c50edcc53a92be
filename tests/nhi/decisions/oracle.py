"""What must come of a case, worked out a second time from the promises alone. Nothing of the product is used here."""

import re
from typing import Any

from tests.nhi.decisions.table import Case, Expected, Role

CREDENTIAL = {
    "unknown": "credential_unknown",
    "wrong secret": "credential_unknown",
    "revoked": "credential_revoked",
    "expired": "credential_expired",
    "closed after its end": "credential_expired",
    "other network": "network_not_allowed",
    "no address": "network_not_allowed",
}
TOKEN = {"made before a stop": "token_stopped", "for another service": "audience_not_allowed"}
DEAD = {"revoked": "revoked", "expired": "expired", "closed after its end": "expired"}
CLOSED = {"revoked", "closed after its end"}
#: Schemas that no validator may accept; where they are stored, every decision that meets them is a deny.
BROKEN = ({"type": "nonsense"}, {"$ref": "http://127.0.0.1:9/schema"})


class Failed(Exception):
    """A check failed: (reason, name of the check)."""


def expected(case: Case) -> Expected:
    try:
        reason = _walk(case)
    except Failed as failed:
        return Expected("deny", *failed.args)
    return Expected("allow", reason, {"granted": "grant", "role": "role", "self": "self"}[reason])


def _walk(case: Case) -> str:
    if any(limits.get("parameters") in BROKEN for limits in case.limited.values()):
        raise Failed("decision_failed", "error")
    _credential(case)
    _caller(case)
    if case.verb == "know itself":
        return "self"
    if case.called is None:
        raise Failed("no_grant", "target_known")
    kind = _open_way(case)
    _scope(case)
    _target(case)
    if kind != "role":
        _limits(case, kind)
    return "role" if kind == "role" else "granted"


def _credential(case: Case) -> None:
    if case.credential == "none":
        return
    if case.token.startswith("of another identity"):
        raise Failed("credential_unknown", "credential")
    if case.made == "expired":
        raise Failed("token_expired", "credential")
    said = [CREDENTIAL[word] for word in case.credential.split(", ") if word in CREDENTIAL]
    said += [TOKEN[case.made]] if case.made in TOKEN else []
    if case.caller == "person deactivated":
        said.append("person_inactive")
    if said:
        raise Failed(said[0], "credential")


def _caller(case: Case) -> None:
    if case.calling.state != "active":
        raise Failed(f"caller_{case.calling.state}", "caller")
    if case.calling.ends == "ended":
        raise Failed("caller_expired", "caller")


def _open_way(case: Case) -> str:
    """The live grant or role that decides: one whose limits are kept before one whose are not."""
    live, dead = _ways(case)
    for kind in live:
        if kind == "role" or not _broken_limit(case, kind):
            return kind
    if live:
        return live[0]
    raise Failed(dead[0] if dead else "no_grant", "access")


def _ways(case: Case) -> tuple[list[str], list[str]]:
    """Live ways, and the reasons of those that ended; direct grants before roles."""
    live, dead = [], []
    for kind in ("tool", "call", "delegate"):
        states = [state for held, state in case.held if held == kind]
        # At most one grant of a pair is open; what was closed last speaks where none is.
        deciding = next((state for state in states if state not in CLOSED), states[-1] if states else None)
        if deciding in {"live", "ending"}:
            live.append(kind)
        elif deciding is not None:
            dead.append(f"grant_{DEAD[deciding]}")
    covering = [state for role in case.assigned if (state := _role_state(role, case))]
    if "live" in covering:
        live.append("role")
    elif covering:
        # An assignment that merely ended is still open; one that was closed is not.
        dead.append("role_expired" if "expired" in covering else f"role_{DEAD[covering[-1]]}")
    return live, dead


def _role_state(role: Role, case: Case) -> str:
    """The state in which the role covers the target, or an empty text when it never did."""
    capability = case.called.capability if case.called else None
    approved = [pattern for pattern in role.patterns if "waiting" not in pattern.marks]
    covering = [pattern for pattern in approved if capability and covers(pattern.text, capability)]
    if not covering:
        return ""
    if all("removed" in pattern.marks for pattern in covering):
        return "revoked"
    return "live" if role.state in {"live", "ending"} else role.state


def covers(pattern: str, capability: str) -> bool:
    """Whole segments; a star stands at the end, for one segment or more."""
    wanted, has = pattern.split("."), capability.split(".")
    if wanted == ["*", "*"]:
        return True
    if wanted[-1] != "*":
        return wanted == has
    return len(has) >= len(wanted) and has[: len(wanted) - 1] == wanted[:-1]


def _scope(case: Case) -> None:
    if not case.scope:
        return
    capability = case.called.capability if case.called else None
    if capability is None or not any(covers(pattern, capability) for pattern in case.scope):
        raise Failed("scope_not_allowed", "scope")


def _target(case: Case) -> None:
    assert case.called is not None
    if case.called.state != "active":
        raise Failed("target_unusable", "target")
    if case.called.ends == "ended":
        raise Failed("target_expired", "target")


def _broken_limit(case: Case, kind: str) -> tuple[str, str] | None:
    limits = case.limited.get(kind, {})
    if "parameters" in limits and not fits(limits["parameters"], {} if case.arguments is None else case.arguments):
        return "parameters_not_allowed", "arguments"
    if "actions" in limits and (said := _action(limits["actions"], case.action)):
        return said, "action"
    if limits.get("approval"):
        return "not_enforceable_yet", "approval"
    return ("not_enforceable_yet", "budget") if "per_hour" in limits else None


def _limits(case: Case, kind: str) -> None:
    if broken := _broken_limit(case, kind):
        raise Failed(*broken)


def _action(globs: list[str], action: str) -> str:
    if not globs:
        return "action_not_allowed"
    if not action:
        return "action_not_named"
    spelled = (re.escape(glob).replace(r"\*", ".*").replace(r"\?", ".") for glob in globs)
    return "" if any(re.fullmatch(glob, action) for glob in spelled) else "action_not_allowed"


def fits(schema: Any, value: Any) -> bool:
    """As much of JSON Schema as the table uses."""
    if isinstance(schema, bool):
        return schema
    if not _has_type(schema.get("type"), value):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "maximum" in schema and not isinstance(value, bool) and isinstance(value, int | float):
        return bool(value <= schema["maximum"])
    return _object_fits(schema, value) if isinstance(value, dict) else True


def _has_type(wanted: str | None, value: Any) -> bool:
    match wanted:
        case None:
            return True
        case "object":
            return isinstance(value, dict)
        case "integer":
            return not isinstance(value, bool) and isinstance(value, int | float) and value == int(value)
    raise NotImplementedError(wanted)


def _object_fits(schema: Any, value: dict[str, Any]) -> bool:
    known = schema.get("properties", {})
    if set(schema.get("required", ())) - set(value):
        return False
    if schema.get("additionalProperties") is False and set(value) - set(known):
        return False
    return all(fits(known[name], item) for name, item in value.items() if name in known)
