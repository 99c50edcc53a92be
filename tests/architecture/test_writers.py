"""One writer per fact: states are lifecycle's, rows are the verbs', events are written in one place."""

import ast

import pytest
from django.apps import apps
from django.db import models

from nhi.access.grants import LIMIT_FIELDS
from nhi.audit.event_catalogue import EVENTS
from nhi.identities.identities import DESCRIPTIVE_FIELDS
from nhi.models import Identity
from tests.architecture.source import Module, calls, modules

pytestmark = pytest.mark.capability("NHI-02", "NHI-10", "AUD-01")
WRITES = {
    "save", "delete", "create", "update", "bulk_create", "bulk_update", "get_or_create", "update_or_create", "raw_save",
}  # fmt: skip
#: What makes rows of a chain of calls; `.update()` of a dict has none of it.
ROWS = (".objects", "_default_manager", "_base_manager", "get_queryset", ".filter(", ".exclude(", "queryset")
STATE = {field.attname for field in Identity._meta.fields if field.name.startswith("state")}
STATE |= {"tokens_from", "stop_pending"}
ATOMIC = "transaction.atomic"


def modules_below_nhi() -> list[Module]:
    """The apps that could change an identity's state; models of the others have states of their own."""
    return [module for module in modules() if module.app in {"config", "nhi", "common"}]


def writes_rows(call: ast.Call, name: str, of: str) -> bool:
    if name not in WRITES:
        return False
    if name in {"save", "delete"}:
        # A row's own; allauth's `sociallogin.save(request)` is another thing.
        return not call.args
    return any(mark in of for mark in ROWS) or of == "rows"


def assigned(node: ast.AST) -> list[str]:
    """The attributes that a statement assigns."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    flat = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [part.attr for part in flat if isinstance(part, ast.Attribute)]


def test_no_module_but_lifecycle_assigns_an_identitys_state() -> None:
    found = [
        module.place(node)
        for module in modules_below_nhi()
        if module.path != "nhi/identities/lifecycle.py"
        for node in ast.walk(module.tree)
        if STATE & set(assigned(node))
    ]
    for module in modules_below_nhi():
        if module.path == "nhi/identities/lifecycle.py":
            continue
        for call, name, _of in calls(module):
            named = {keyword.arg for keyword in call.keywords}
            if name in {"update", "create", "get_or_create", "update_or_create"} and STATE & named:
                found.append(module.place(call))
    built = [
        module.place(node)
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Identity"
        if STATE & {keyword.arg for keyword in node.keywords}
    ]
    assert not found + built


def test_setattr_never_reaches_a_state() -> None:
    """What is set by name is one of two closed lists, and no state is in them."""
    assert not STATE & {*DESCRIPTIVE_FIELDS, *LIMIT_FIELDS}
    by_name = {
        module.path
        for module in modules_below_nhi()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr"
    }
    assert by_name == {"nhi/identities/identities.py", "nhi/access/grants.py"}


def test_an_edge_writes_no_row() -> None:
    edges = [module for module in modules() if module.is_edge]
    wrong = [module.place(call) for module in edges for call, name, of in calls(module) if writes_rows(call, name, of)]
    assert not wrong


def test_an_edge_opens_no_transaction() -> None:
    """The views of sign-in wrap allauth's own flows, and what the record says of them, into one."""
    edges = [module for module in modules() if module.is_edge and not module.path.startswith("nhi/web/")]
    wrong = [module.place(call) for module in edges for call, name, of in calls(module) if f"{of}.{name}" == ATOMIC]
    assert not wrong


def test_audit_events_have_one_writer() -> None:
    built = {
        module.path
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"AuditEvent", "AuditEvent.objects.create"}
    }
    assert built == {"nhi/audit/events.py"}


def test_every_event_that_is_written_is_in_the_catalogue() -> None:
    wrong = []
    for module in modules():
        for call, name, of in calls(module):
            if (of, name) != ("events", "write") or not call.args:
                continue
            code = call.args[0]
            if isinstance(code, ast.Constant) and code.value not in EVENTS:
                wrong.append(module.place(call))
    assert not wrong


def test_one_place_decides() -> None:
    made = {
        module.path
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"Decision", "types.Decision"}
    }
    assert made == {"nhi/decisions/engine.py"}


def listed() -> list[type[models.Model]]:
    """Every table of ours but the counters of sign-in, which no page and no path lists."""
    return [model for model in apps.get_app_config("nhi").get_models() if model._meta.default_permissions]


@pytest.mark.capability("NHI-08")
@pytest.mark.parametrize("model", listed(), ids=lambda model: model.__name__)
def test_whatever_can_be_listed_says_to_whom_it_is_visible(model: type[models.Model]) -> None:
    if model.__name__ == "RoleCapability":
        assert hasattr(model._meta.get_field("role").related_model._default_manager, "visible_to")  # type: ignore[union-attr]  # a foreign key, never a generic one
        return
    assert hasattr(model._default_manager, "visible_to")
