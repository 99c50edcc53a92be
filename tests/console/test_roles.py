"""Roles: what they match, who holds them, what a change does, and the wildcard that waits for a second admin."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import resolve

from nhi.access import roles
from nhi.actors import SYSTEM
from nhi.admin.roles.coverage import Coverage
from nhi.choices import Kind
from nhi.decisions import capabilities
from nhi.identities import identities
from nhi.models import AuditEvent, Identity, Role, RoleAssignment, RoleCapability, User
from nhi.people import people
from tests.console.conftest import SignedIn
from tests.console.grants import rows, told
from tests.console.reading import plain

pytestmark = [pytest.mark.django_db, pytest.mark.capability("NHI-09", "CON-05")]

LIST = "/admin/nhi/role/"


def role(name: str = "reader") -> Role:
    return Role.objects.get(name=name)


def at(one: Role, where: str = "") -> str:
    return f"{LIST}{one.pk}/{where}"


def waiting() -> RoleCapability:
    return RoleCapability.objects.get(pattern="*.*")


def second_admin(name: str = "sid") -> Client:
    client = Client()
    client.force_login(people.create(actor=SYSTEM, username=name, roles=["security-admin"]).user)
    return client


# ── The list ────────────────────────────────────────────────────────────────────────────────────────────────────
def test_the_list_says_what_each_matches_who_holds_it_and_what_waits(mara: Client) -> None:
    page = plain(mara.get(LIST))
    for words in ("reader", "github.commits.* jira.search", "2 of 5 tools", "break-glass", "0 of 5 tools", "*.* waits"):
        assert words in page


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("waiting=yes", ["break-glass"]),
        ("held=no", ["break-glass"]),
        ("held=yes", ["reader"]),
        ("pattern=jira", ["reader"]),
        ("wide=yes", ["break-glass", "reader"]),
        ("q=looks", ["reader"]),
    ],
)
def test_filters_narrow_the_list(mara: Client, query: str, left: list[str]) -> None:
    assert rows(mara.get(f"{LIST}?{query}")) == left


def test_coverage_agrees_with_the_rule_of_patterns(seeded: None) -> None:
    """The count in memory is the count that decides, pattern by pattern and for all of them together."""
    for tool in ("a__b", "a__b/c", "a__bc", "ab__c"):
        identities.create(actor=SYSTEM, kind=Kind.TOOL, name=tool, owner=User.objects.get(username="mara"))
    coverage = Coverage(SYSTEM)
    every = list(Identity.objects.of_kind(Kind.TOOL).values_list("capability", flat=True))
    assert coverage.total == len(every)
    tried = ["a.*", "a.b", "a.b.*", "ab.*", "jira.search", "github.*", "*.*", "none.*", "a.bc"]
    for patterns in ([one] for one in tried):
        matched = [name for name in every if any(capabilities.matches(one, str(name)) for one in patterns)]
        assert coverage.count(patterns) == len(matched) == roles.covered_tools(patterns).count(), patterns
    assert coverage.count(tried) == coverage.total
    assert coverage.count(["a.*", "a.b", "a.b.*", "jira.search"]) == roles.covered_tools(["a.*", "jira.search"]).count()


# ── The page ────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_pattern_opens_to_its_tools(mara: Client) -> None:
    closed = plain(mara.get(at(role())))
    assert "github__commits/list" not in closed
    opened = plain(mara.get(f"{at(role())}?open=github.commits.*"))
    assert "github__commits/list" in opened
    assert "High risk: takes in tools to come." in opened


def test_holders_stand_with_their_ends_and_can_be_unassigned(mara: Client) -> None:
    page = mara.get(at(role()))
    assert "planner" in plain(page)
    held = RoleAssignment.objects.get(identity__name="planner")
    where = f"/admin/nhi/roleassignment/{held.pk}/revoke/?back=role"
    assert where in page.content.decode()
    assert "planner loses 2 tools of this role" in plain(mara.get(where))
    answer = mara.post(where, {"reason": "No longer needed", "seen": "tools:2"})
    assert answer.headers["Location"] == at(role())
    held.refresh_from_db()
    assert held.state == "revoked"
    holders = plain(mara.get(at(role()))).partition("Given by, why")[2].partition("Last changes")[0]
    assert "nightly-report" in holders
    assert "planner" not in holders


def test_the_page_of_a_role_costs_the_same_whatever_it_holds(mara: Client) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert mara.get(f"{at(role())}?open=jira.search").status_code == 200
        return len(asked)

    cost()
    few = cost()
    owner = User.objects.get(username="mara")
    many = Identity.objects.bulk_create(
        Identity(kind=Kind.AGENT, name=f"bot-{n}", owner=owner, state="active", created_by_name="mara")
        for n in range(300)
    )  # fmt: skip
    RoleAssignment.objects.bulk_create(RoleAssignment(identity=one, role=role(), granted_by_name="x") for one in many)
    Identity.objects.bulk_create(
        Identity(kind=Kind.TOOL, name=f"jira__t{n}", capability=f"jira.t{n}", owner=owner, created_by_name="mara")
        for n in range(1000)
    )  # fmt: skip
    assert cost() == few <= 15


# ── Making and changing ─────────────────────────────────────────────────────────────────────────────────────────
def test_add_a_role(mara: Client) -> None:
    answer = mara.post(f"{LIST}add/", {"name": "writer", "patterns": "github.create_issue\njira.*", "description": "W"})
    made = role("writer")
    assert answer.headers["Location"] == at(made)
    assert [one.pattern for one in made.capabilities.current()] == ["github.create_issue", "jira.*"]


@pytest.mark.parametrize(
    ("fields", "said", "status"),
    [
        ({"name": "reader"}, "This name is taken", 409),
        ({"name": "Not A Slug"}, "Use 1 to 63 lower-case letters", 400),
        ({"name": "fine", "patterns": "github.* nonsense"}, "&#x27;nonsense&#x27; is no pattern", 400),
    ],
)
def test_a_role_that_cannot_be_added_says_why(mara: Client, fields: dict[str, str], said: str, status: int) -> None:
    answer = mara.post(f"{LIST}add/", {"patterns": "", "description": "", **fields})
    assert answer.status_code == status
    assert said in plain(answer)


def change(client: Client, patterns: str, *, seen: str = "", one: Role | None = None) -> Any:
    fields = {"patterns": patterns, "description": "Looks, changes nothing", "seen": seen}
    return client.post(at(one or role(), "change/"), fields)


def patterns_of(one: Role) -> list[str]:
    return [capability.pattern for capability in one.capabilities.current()]


def test_a_change_says_its_effect_before_it_is_done(mara: Client) -> None:
    had = patterns_of(role())
    first = change(mara, "github.*")
    assert first.status_code == 409
    assert "Adds 2 tools for 2 identities" in plain(first)
    assert "Removes 1 tool for 2 identities" in plain(first)
    assert patterns_of(role()) == had
    assert change(mara, "github.*", seen=first.context["seen"]).headers["Location"] == at(role())
    assert patterns_of(role()) == ["github.*"]
    event = AuditEvent.objects.filter(event="role.changed").latest("at")
    assert event.after["capabilities"] == ["github.*"]


def test_the_line_under_the_patterns_foresees_the_same_and_changes_nothing(mara: Client) -> None:
    fields = {"patterns": "github.* github", "description": ""}
    answer = mara.post(at(role(), "change/preview/"), fields, headers={"X-Console-Part": "1"})
    assert "Adds 2 tools for 2 identities" in plain(answer)
    assert 'name="seen" value="added:2,removed:1,waits:0"' in answer.content.decode()
    assert patterns_of(role()) == ["github.commits.*", "jira.search"]
    assert mara.get(at(role(), "change/preview/")).status_code == 405


def test_a_waiting_wildcard_counts_for_nothing_in_an_effect(seeded: None) -> None:
    assert roles.preview_patterns(role("break-glass"), ["*.*"]) == roles.PatternChangeEffect(0, 0, 0)
    added = roles.preview_patterns(role("break-glass"), ["*.*", "jira.*"])
    assert (added.added, added.removed) == (2, 0)
    assert roles.preview_patterns(role(), ["*.*"]).added == 0


def test_an_archived_tool_counts_for_nothing(seeded: None) -> None:
    Identity.objects.filter(name="jira__edit").update(state="archived")
    assert roles.preview_patterns(role("break-glass"), ["jira.*"]).added == 1
    assert Coverage(SYSTEM).total == 4


def test_what_a_page_says_of_the_api_is_there(mara: Client) -> None:
    pages = (LIST, at(role()), f"{LIST}add/", at(role(), "change/"))
    calls = [call for page in pages for call in told(mara, page)]
    assert [method for method, _ in calls] == ["GET", "GET", "POST", "PATCH"]
    assert all(resolve(path) for _, path in calls)
    assert mara.get(calls[1][1]).json()["name"] == "reader"


# ── The wildcard ────────────────────────────────────────────────────────────────────────────────────────────────
def test_who_asked_for_a_wildcard_is_told_who_can_approve_it(mara: Client) -> None:
    one = role("break-glass")
    page = plain(mara.get(at(one)))
    assert "You asked for this, so someone else must approve. 1 person can: admin." in page
    assert "Copy link for them" in page
    assert "Approve *.*" not in page
    answer = mara.post(at(one, f"approve/{waiting().pk}/"), {"reason": "I want it", "seen": "added:9,identities:9"})
    assert answer.status_code == 403
    assert "someone else must approve" in plain(answer)
    assert waiting().approved_at is None


def test_a_second_admin_approves_it_knowing_what_it_covers(mara: Client) -> None:
    one = role("break-glass")
    sid = second_admin()
    assert "2 people can: admin, sid." in plain(mara.get(at(one)))
    assert "Approve *.*" in plain(sid.get(at(one)))
    dialog = plain(sid.get(at(one, f"approve/{waiting().pk}/")))
    assert "mara asked for it" in dialog
    assert "Adds 5 tools" in dialog
    fields = {"reason": "Reviewed with the owner", "seen": "added:5,identities:0"}
    assert sid.post(at(one, f"approve/{waiting().pk}/"), fields).headers["Location"] == at(one)
    assert waiting().approved_by_name == "sid"
    assert "5 of 5 tools" in plain(sid.get(LIST))
    again = sid.post(at(one, f"approve/{waiting().pk}/"), fields)
    assert again.status_code == 409


def test_those_who_can_approve_are_admins_who_did_not_ask(seeded: None) -> None:
    second_admin()
    people.create(actor=SYSTEM, username="both", roles=["security-admin", "auditor"])
    people.create(actor=SYSTEM, username="gone", roles=["security-admin"])
    User.objects.filter(username="gone").update(is_active=False)
    assert [str(one) for one in roles.approvers(waiting())] == ["admin", "sid"]


def test_a_wildcard_that_is_new_says_that_it_waits(mara: Client) -> None:
    first = change(mara, "github.commits.* jira.search *.*")
    assert "*.* lets nothing pass until a second admin has approved it" in plain(first)
    change(mara, "github.commits.* jira.search *.*", seen=first.context["seen"])
    assert role().capabilities.get(pattern="*.*").approved_at is None


# ── Who sees and does what ──────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("username", ["ada", "olga", "tom"])
def test_who_only_reads_sees_no_control_and_is_refused(signed_in: SignedIn, username: str) -> None:
    client, one = signed_in(username), role("break-glass")
    for page in (LIST, at(one), at(role())):
        body = client.get(page).content.decode()
        for control in ("add/", "change/", "approve/", "revoke/", "give/"):
            assert f"{control}" not in body.partition("<main")[2], (page, control)
    for where in (f"{LIST}add/", at(one, "change/"), at(one, "change/preview/"), at(one, f"approve/{waiting().pk}/")):
        assert client.post(where, {"name": "x", "patterns": "*.*", "reason": "Because"}).status_code == 403
    assert Role.objects.count() == 2


@pytest.mark.usefixtures("seeded")
def test_without_a_role_one_sees_the_roles_of_ones_own() -> None:
    user = people.create(actor=SYSTEM, username="dev").user
    User.objects.filter(pk=user.pk).update(is_staff=True)
    Identity.objects.filter(name="planner").update(owner=user)
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    assert rows(client.get(LIST)) == ["reader"]
    held = plain(client.get(at(role())))
    assert "planner" in held
    assert "nightly-report" not in held
    assert client.get(at(role("break-glass"))).status_code == 404


def test_a_change_that_was_not_foreseen_shows_its_effect_once_and_blames_nobody(mara: Client) -> None:
    answer = change(mara, "github.*", seen="added:0,removed:0,waits:0")
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "This is what these patterns would do" in page
    assert "More would end" not in page
    assert page.count('class="gh-effects"') == 1
