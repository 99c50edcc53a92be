"""Explain: every check in its order, which one decides, and what would make it pass; asked without leaving a trace."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nhi.access import grants, roles
from nhi.actors import SYSTEM
from nhi.decisions.engine import CHECKS
from nhi.identities import lifecycle
from nhi.models import AuditEvent, Identity, Role, ToolPermission, User
from nhi.people import people
from tests.console.conftest import SignedIn, identity
from tests.console.grants import tool_grant
from tests.console.reading import plain
from tests.console.walk import changed, snapshot
from tests.mcp.behind import stand_behind_a_server
from tests.nhi import cast

pytestmark = [pytest.mark.django_db, pytest.mark.capability("NHI-10", "CON-05")]

PAGE = "/admin/explain/"


@pytest.fixture(autouse=True)
def _tools_are_offered(seeded: None) -> None:
    """The demo's tools that were registered by hand; those of a server have one."""
    stand_behind_a_server(Identity.objects.filter(kind="tool", tool=None))


def ask(client: Client, caller: str, target: str, **more: str) -> Any:
    return client.get(PAGE, {"caller": caller, "target": target, **more})


def decider(answer: Any) -> str:
    return str(next(line.check.name for line in answer.context["lines"] if line.decides))


# ── What it says ────────────────────────────────────────────────────────────────────────────────────────────────
def test_every_check_stands_in_the_order_of_a_decision(mara: Client) -> None:
    answer = ask(mara, "deploy-bot", "github__create_issue")
    assert [line.check.name for line in answer.context["lines"]] == [name for name, _ in CHECKS]
    page = plain(answer)
    for words in ("Why may deploy-bot call github__create_issue?", "Allowed", "granted", "grant by mara", "decides"):
        assert words in page
    assert decider(answer) == "access"


def suspended() -> None:
    lifecycle.suspend(actor=SYSTEM, identity=identity("triage-bot"), reason="Leaked")


def stopped_target() -> None:
    lifecycle.deactivate(actor=SYSTEM, identity=identity("jira__search"), reason="Pause")


def ended() -> None:
    ToolPermission.objects.filter(agent__name="triage-bot").update(expires_at=timezone.now() - timedelta(days=3))


def revoked() -> None:
    grants.revoke(actor=SYSTEM, grant=tool_grant("triage-bot", "jira__search"), reason="Leaked")


def asks_for_approval() -> None:
    ToolPermission.objects.filter(agent__name="triage-bot").update(requires_approval=True)


#: What is done first, then the check that decides, its reason, and a button.
DENIED = [
    (suspended, "caller", "caller_suspended", "Open triage-bot"),
    (stopped_target, "target", "target_unusable", "Open jira__search"),
    (ended, "access", "grant_expired", "Open the grant that ended"),
    (revoked, "access", "grant_revoked", "Give access"),
    (asks_for_approval, "approval", "approval_required", "Change its limits"),
]


@pytest.mark.parametrize(("first", "check", "reason", "button"), DENIED)
def test_a_denial_says_which_check_why_and_what_to_do(
    mara: Client, first: Any, check: str, reason: str, button: str
) -> None:
    first()
    answer = ask(mara, "triage-bot", "jira__search")
    page = plain(answer)
    assert decider(answer) == check
    for words in ("Denied", reason, "What would make it pass", button):
        assert words in page


def test_what_stands_behind_the_decider_is_said_too(mara: Client) -> None:
    answer = ask(mara, "writer", "jira__edit")
    assert decider(answer) == "access"
    assert "writer has no grant for jira__edit and no role that covers it." in plain(answer)
    assert "Target is active and has not expired check Would pass" in plain(answer)


def test_what_else_covers_the_call_is_linked(mara: Client) -> None:
    held = roles.assign(actor=SYSTEM, role=Role.objects.get(name="reader"), identity=identity("triage-bot"))
    page = ask(mara, "triage-bot", "jira__search")
    assert "Also covered by role reader" in plain(page)
    assert f"/admin/nhi/roleassignment/{held.pk}/" in page.content.decode()


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"allowed_parameters": {"required": ["project"]}}, "limits the arguments, but the role reader covers"),
        ({"requires_approval": True}, "asks for approval, but the role reader covers"),
        ({"max_calls_per_hour": 5}, ""),
        ({}, ""),
    ],
)
def test_a_limit_that_a_role_makes_void_is_warned_of(mara: Client, limits: Any, words: str) -> None:
    bot, warned = identity("triage-bot"), "pass by the role"
    old = tool_grant("triage-bot", "jira__search")
    grant = grants.change_limits(actor=SYSTEM, grant=old, limits=limits, reason="For the test")
    page = f"/admin/nhi/toolpermission/{grant.pk}/"
    assert warned not in plain(ask(mara, "triage-bot", "jira__search")) + plain(mara.get(page))
    roles.assign(actor=SYSTEM, role=Role.objects.get(name="reader"), identity=bot)
    for answer in (ask(mara, "triage-bot", "jira__search"), mara.get(page)):
        assert words in plain(answer)
        assert (warned in plain(answer)) == bool(words)


@pytest.mark.capability("NHI-07")
def test_it_explains_one_identity_calling_another(mara: Client) -> None:
    assert "Allowed" in plain(ask(mara, "planner", "writer"))
    unnamed = ask(mara, "planner", "deploy-bot")
    assert decider(unnamed) == "action"
    assert "Allowed" in plain(ask(mara, "planner", "deploy-bot", action="release.cut"))
    assert "action_not_allowed" in plain(ask(mara, "planner", "deploy-bot", action="other"))


def test_it_explains_a_time_to_come_and_no_time_gone(mara: Client) -> None:
    later = (timezone.now() + timedelta(days=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert "grant_expired" in plain(ask(mara, "triage-bot", "jira__search", at=later))
    gone = ask(mara, "triage-bot", "jira__search", at="2020-01-01T00:00")
    assert gone.status_code == 400
    assert "Choose now or a time to come" in plain(gone)


def test_the_link_to_copy_holds_ids_and_utc(mara: Client) -> None:
    User.objects.filter(username="mara").update(time_zone="Asia/Tokyo")
    answer = ask(mara, "writer", "jira__edit", at="2099-01-31T09:00")
    address = answer.context["address"]
    assert f"caller={identity('writer').pk}&target={identity('jira__edit').pk}" in address
    assert "at=2099-01-31T00%3A00%3A00Z" in address
    assert mara.get(address).context["at"] == answer.context["at"]


# ── Arguments ───────────────────────────────────────────────────────────────────────────────────────────────────
def with_arguments(client: Client, arguments: str) -> Any:
    where = f"{PAGE}?caller=triage-bot&target=github__create_issue"
    return client.post(where, {"arguments": arguments})


def test_a_link_with_ids_shows_names(mara: Client) -> None:
    bot, tool = (Identity.objects.get(name=name) for name in ("triage-bot", "jira__search"))
    form = ask(mara, str(bot.pk), str(tool.pk)).context["form"]
    assert (form["caller"].value(), form["target"].value()) == ("triage-bot", "jira__search")


def test_arguments_come_by_post_and_are_kept_nowhere(mara: Client) -> None:
    before = snapshot()
    denied = with_arguments(mara, '{"repo": "acme/payroll-7319"}')
    assert decider(denied) == "arguments"
    assert "parameters_not_allowed" in plain(denied)
    assert "payroll-7319" not in denied.context["address"]
    assert "Allowed" in plain(with_arguments(mara, '{"repo": "acme/site"}'))
    assert not changed(before)


def test_arguments_in_an_address_are_not_read(mara: Client) -> None:
    answer = ask(mara, "triage-bot", "github__create_issue", arguments='{"repo": "acme/site"}')
    assert decider(answer) == "arguments"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("{}", "`repo` is missing: the grant demands it."),
        ('{"repo": "acme/payroll"}', "`repo` is not one of"),
        ('"x"', "The whole of the arguments is not of type"),
    ],
)
def test_arguments_that_break_the_limits_are_said_by_their_name(mara: Client, arguments: str, words: str) -> None:
    assert words in plain(with_arguments(mara, arguments))


def test_arguments_that_are_no_json_are_refused_beside_their_field(mara: Client) -> None:
    answer = with_arguments(mara, "{")
    assert answer.status_code == 422
    assert "This is not JSON: line 1, column 2," in plain(answer)


# ── Who may ask ─────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_look_changes_nothing(mara: Client) -> None:
    before = snapshot()
    ask(mara, "triage-bot", "jira__search")
    ask(mara, "writer", "jira__edit", at="2099-01-01T00:00")
    assert not changed(before)
    assert not AuditEvent.objects.filter(event__startswith="decision.").exists()


@pytest.mark.parametrize(
    ("caller", "target"), [("nobody", "jira__edit"), ("writer", "nothing"), ("jira__edit", "writer")]
)
def test_what_is_not_there_is_not_found(mara: Client, caller: str, target: str) -> None:
    assert ask(mara, caller, target).status_code == 404


@pytest.mark.usefixtures("seeded")
def test_both_must_be_visible_and_what_is_hidden_is_as_what_is_not_there() -> None:
    user = people.create(actor=SYSTEM, username="dev").user
    User.objects.filter(pk=user.pk).update(is_staff=True)
    Identity.objects.filter(name__in=("deploy-bot", "jira__edit")).update(owner=user)
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    assert ask(client, "deploy-bot", "jira__edit").status_code == 200
    typed = ("jira__search", "jira__nothing", str(identity("jira__search").pk))
    hidden, unknown, by_id = (ask(client, "deploy-bot", name) for name in typed)
    assert hidden.status_code == unknown.status_code == 404
    assert by_id.status_code == 404
    said = [" ".join(one.context["form"].errors["target"]) for one in (hidden, unknown, by_id)]
    assert said == [f"There is no identity {name} that you can see." for name in typed]


def test_an_auditor_asks_by_address_and_sends_nothing(signed_in: SignedIn) -> None:
    ada = signed_in("ada")
    page = ask(ada, "writer", "jira__edit")
    assert "Denied" in plain(page)
    assert "Give access" not in plain(page)
    assert "With arguments" not in plain(page)
    assert with_arguments(ada, '{"repo": "acme/site"}').status_code == 403


@pytest.mark.parametrize("username", ["olga", "tom"])
def test_who_may_not_give_sees_what_would_help_and_no_button(signed_in: SignedIn, username: str) -> None:
    page = plain(ask(signed_in(username), "writer", "jira__edit"))
    assert "What would make it pass" in page
    assert "Give access" not in page.replace("Give writer access", "")


def test_a_question_that_lacks_a_name_begins_with_the_other(mara: Client) -> None:
    page = mara.get(PAGE, {"caller": str(identity("writer").pk)}).content.decode()
    assert 'value="writer"' in page
    assert "Every check" not in page


#: With a server behind the target, its budgets, its breaker and the approval are looked at too.
@pytest.mark.parametrize(("caller", "target", "most"), [("planner", "writer", 10), ("triage-bot", "jira__search", 15)])
def test_an_answer_costs_a_few_queries(mara: Client, caller: str, target: str, most: int) -> None:
    ask(mara, caller, target)
    with CaptureQueriesContext(connection) as asked:
        ask(mara, caller, target)
    assert len(asked) <= most


def test_a_tool_that_no_server_offers_is_not_usable(mara: Client) -> None:
    cast.tool_grant(identity("deploy-bot"), cast.tool("github__star"))
    answer = ask(mara, "deploy-bot", "github__star")
    assert decider(answer) == "server"
    for words in ("target_unusable", "No server offers this tool.", "Add the server that offers github__star."):
        assert words in plain(answer)


def test_a_tool_goes_by_the_name_that_the_log_shows(mara: Client) -> None:
    answer = ask(mara, "deploy-bot", "github.create_issue")
    assert answer.status_code == 200
    assert answer.context["form"]["target"].value() == "github__create_issue"


@pytest.mark.parametrize(
    ("asked", "errors"),
    [
        ({"caller": "dep", "target": ""}, {"caller": "There is no agent", "target": "required"}),
        ({"caller": "", "target": ""}, {"caller": "required", "target": "required"}),
        (
            {"caller": "deploy-bot", "target": "todo.nope"},
            {"target": "There is no identity todo.nope that you can see"},
        ),
    ],
)
def test_what_was_typed_stays_with_the_error_beside_it(mara: Client, asked: Any, errors: dict[str, str]) -> None:
    answer = mara.get(PAGE, {**asked, "at": "", "action": "", "task": ""})
    assert answer.status_code in {400, 404}
    form = answer.context["form"]
    assert {name: form[name].value() for name in asked} == asked
    assert set(form.errors) == set(errors)
    for words in errors.values():
        assert words in plain(answer)
