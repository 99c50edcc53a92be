"""People at the console: who may come in, what they may do, and what becomes of what is theirs."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client

from a2a.rights import ROLES as TASK_ROLES
from mcp.rights import ROLES as GATEWAY_ROLES
from nhi.access.rights import CONSOLE_ROLES
from nhi.actors import SYSTEM
from nhi.choices import GrantState
from nhi.console.console_role_rights import LABELS, RIGHTS, role_rights_table
from nhi.credentials import credentials
from nhi.identities import handover, identities
from nhi.models import AuditEvent, Credential, Identity, User
from nhi.people import sign_in_throttle
from supervisor.rights import ROLES as RUN_ROLES
from tests.console.axe import violations
from tests.console.conftest import NARROW, SignedIn, Visit, identity
from tests.nhi import cast

pytestmark = pytest.mark.capability("CON-01", "CON-05")

LIST = "/admin/nhi/user/"
Most = Callable[..., Any]


def person(name: str) -> User:
    return User.objects.get(username=name)


def page_of(name: str, part: str = "") -> str:
    return f"{LIST}{person(name).pk}/{part}"


def shown(client: Client, **query: str) -> list[str]:
    return [row["name"] for row in client.get(LIST, query).context_data["rows"]]


def submit(client: Client, path: str, **body: Any) -> Any:
    """Sends a dialog as it was drawn: with the counts that the person has seen."""
    page = client.get(path).content.decode()
    seen = re.search(r'name="seen" value="([^"]*)"', page)
    return client.post(path, {"seen": seen[1] if seen else "", "reason": "For the test", **body})


def factor(name: str, kind: str = "totp") -> Authenticator:
    return Authenticator.objects.create(user=person(name), type=kind, data={})


# ── The list ──────────────────────────────────────────────────────────────────────────────────────────────────────
def test_the_list_says_roles_factor_and_what_they_own(mara: Client) -> None:
    factor("tom")
    factor("olga", "recovery_codes")
    page = mara.get(LIST).content.decode()
    rows = dict(zip(shown(mara), re.findall(r"<tr data-row>(.*?)</tr>", page, re.DOTALL), strict=True))
    assert "Approver" in rows["tom"]
    assert "Set up" in rows["tom"]
    assert "None" in rows["olga"]
    assert "Superuser" in rows["admin"]
    assert f">{Identity.objects.filter(owner__username='tom').count()}</td>" in rows["tom"]


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"role": "approver"}, {"tom"}),
        ({"role": "superuser"}, {"admin"}),
        ({"role": "none"}, {"dev"}),
        ({"factor": "yes"}, {"tom"}),
        ({"active": "False"}, {"gone"}),
        ({"q": "AR"}, {"mara"}),
    ],
)
def test_it_is_narrowed(mara: Client, query: dict[str, str], names: set[str]) -> None:
    factor("tom")
    cast.user("dev")
    User.objects.filter(pk=cast.user("gone", "operator").pk).update(is_active=False)
    assert set(shown(mara, **query)) == names


@pytest.mark.both_databases
def test_the_list_costs_the_same_with_thousands(mara: Client, django_assert_max_num_queries: Most) -> None:
    with django_assert_max_num_queries(15) as few:
        shown(mara)
    User.objects.bulk_create([User(username=f"person-{i}", is_staff=True) for i in range(2000)])
    with django_assert_max_num_queries(len(few.captured_queries)):
        assert len(shown(mara)) == 50


def test_who_does_not_see_people_sees_themselves(signed_in: SignedIn) -> None:
    olga = signed_in("olga")
    assert shown(olga) == ["olga"]
    assert olga.get(page_of("olga")).status_code == 200
    assert olga.get(page_of("tom")).status_code == 404


# ── One person ────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.both_databases
def test_the_page_tells_what_is_theirs_within_its_budget(mara: Client, django_assert_max_num_queries: Most) -> None:
    factor("tom")
    credentials.issue(actor=SYSTEM, holder=person("tom"))
    path = page_of("tom")
    mara.get(path)
    with django_assert_max_num_queries(15):
        page = mara.get(path).content.decode()
    for said in ("Authenticator app", "jira__search", "Personal tokens", "Change roles", "Approver"):
        assert said in page


@pytest.mark.parametrize(
    ("who", "whom", "why"),
    [
        ("mara", "mara", "Someone else must do this to your account."),
        ("mara", "admin", "Only a superuser changes a superuser."),
        ("mara", "olga", "There is none."),
        ("mara", "tom", "Only a superuser changes how somebody signs in who approves definitions, calls or wildcards."),
    ],
)
def test_what_the_state_forbids_says_why(signed_in: SignedIn, who: str, whom: str, why: str) -> None:
    assert why in signed_in(who).get(page_of(whom)).content.decode()


@pytest.mark.parametrize("name", ["tom", "ada"])
def test_who_may_not_change_people_gets_no_control(signed_in: SignedIn, name: str) -> None:
    client = signed_in(name)
    page = client.get(page_of("olga")).content.decode()
    assert "Change roles" not in page
    assert "Add person" not in client.get(LIST).content.decode()
    for part in ("roles", "password", "factor", "unlock", "deactivate", "reactivate", "hand-over"):
        assert client.get(page_of("olga", f"{part}/")).status_code == 403
    assert client.get(f"{LIST}add/").status_code == 403


# ── Verbs ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_new_person_gets_a_password_that_is_shown_once(mara: Client) -> None:
    answer = submit(mara, f"{LIST}add/", username="nina", roles=["operator"])
    password = re.search(r'id="gh-password" data-text="([^"]+)"', answer.content.decode())[1]
    assert "no-store" in answer.headers["Cache-Control"]
    nina = person("nina")
    assert nina.check_password(password)
    assert [group.name for group in nina.groups.all()] == ["operator"]
    assert password not in mara.get(page_of("nina")).content.decode()
    assert password not in str(list(AuditEvent.objects.values()))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"username": "tom"}, "This name is taken."),
        ({"username": "no spaces"}, "Use at most 150 letters"),
        ({"username": "nina", "roles": ["king"]}, "king is not one of the available choices"),
    ],
)
def test_a_wrong_person_is_said_beside_the_field(mara: Client, body: dict[str, Any], said: str) -> None:
    answer = submit(mara, f"{LIST}add/", **body)
    assert answer.status_code in (409, 422, 400)
    assert said in answer.content.decode()
    assert not User.objects.filter(username="nina").exists()


def test_roles_are_changed_with_a_reason_on_record(mara: Client) -> None:
    assert "Who may do what" in mara.get(page_of("tom", "roles/")).content.decode()
    assert submit(mara, page_of("tom", "roles/"), roles=["operator", "approver"]).status_code == 302
    event = AuditEvent.objects.get(event="person.roles_changed")
    assert (event.before, event.after) == ({"roles": ["approver"]}, {"roles": ["approver", "operator"]})
    assert event.reason == "For the test"


@pytest.mark.capability("NHI-04")
def test_roles_that_approve_are_disabled_with_the_reason_and_stay(mara: Client) -> None:
    for path, ticked in ((page_of("tom", "roles/"), {"approver"}), (f"{LIST}add/", set())):
        boxes = re.findall(r'<input type="checkbox" name="roles" value="([^"]+)"[^>]*?( checked)?( disabled[^>]*)?>',
                           mara.get(path).content.decode())  # fmt: skip
        assert {name for name, _, disabled in boxes if disabled} >= {"security-admin", "approver"}
        assert {name for name, checked, _ in boxes if checked} == ticked
        assert "Only a superuser gives or takes it here" in mara.get(path).content.decode()
    # A browser sends no disabled tick; neither does leaving it out take the role.
    assert submit(mara, page_of("tom", "roles/"), roles=["operator"]).status_code == 302
    assert {group.name for group in person("tom").groups.all()} == {"approver", "operator"}


@pytest.mark.parametrize("role", ["approver", "security-admin"])
def test_a_forged_tick_gives_nothing(mara: Client, role: str) -> None:
    assert submit(mara, f"{LIST}add/", username="twin", roles=[role]).status_code == 403
    assert submit(mara, page_of("olga", "roles/"), roles=["operator", role]).status_code == 403
    assert not User.objects.filter(username="twin").exists()
    assert [group.name for group in person("olga").groups.all()] == ["operator"]


def test_nobody_but_a_superuser_takes_over_who_approves(mara: Client, signed_in: SignedIn) -> None:
    factor("tom")
    for part in ("password/", "factor/"):
        assert submit(mara, page_of("tom", part)).status_code == 403, part
    assert Authenticator.objects.filter(user=person("tom")).exists()
    root = signed_in("admin")
    assert submit(root, page_of("tom", "factor/")).status_code == 302
    submit(root, page_of("olga", "roles/"), roles=["operator", "approver"])
    assert person("olga").groups.count() == 2
    submit(root, page_of("tom", "deactivate/"))
    page = mara.get(page_of("tom")).content.decode()
    assert "only a superuser or whoever deactivated them reactivates them" in page
    assert submit(mara, page_of("tom", "reactivate/")).status_code == 403


def test_a_service_account_that_approves_says_who_makes_its_credentials(mara: Client) -> None:
    ci = identity("ci")
    identities.set_console_roles(actor=SYSTEM, identity=ci, roles=["approver"])
    held = credentials.issue(actor=SYSTEM, holder=ci).credential
    base = f"/admin/nhi/identity/{ci.pk}/credentials/"
    page = mara.get(base).content.decode()
    assert "only a superuser makes its credentials" in page
    assert f"{held.pk}/rotate/" not in page
    listed = mara.get("/admin/nhi/credential/", {"q": "ci"}).content.decode()
    assert "Only a superuser rotates it: it approves." in listed
    for part in ("issue/", f"{held.pk}/rotate/"):
        assert mara.get(base + part).status_code == 403


def test_only_superusers_touch_superusers(mara: Client) -> None:
    for part, body in (("roles/", {"roles": ["auditor"]}), ("deactivate/", {}), ("password/", {}), ("factor/", {})):
        assert submit(mara, page_of("admin", part), **body).status_code == 403, part
    admin = person("admin")
    assert (admin.is_active, admin.is_superuser, admin.groups.count()) == (True, True, 0)


def test_nobody_changes_their_own_roles(mara: Client) -> None:
    answer = submit(mara, page_of("mara", "roles/"), roles=["auditor"])
    assert "Someone else must change your roles." in answer.content.decode()


def test_a_lost_phone(mara: Client) -> None:
    factor("olga")
    factor("olga", "recovery_codes")
    page = mara.get(page_of("olga", "factor/")).content.decode()
    assert "Removes 1 second factor and the recovery codes" in page
    assert is_empty_reason(page)
    assert submit(mara, page_of("olga", "factor/")).status_code == 302
    assert not Authenticator.objects.filter(user=person("olga")).exists()
    assert AuditEvent.objects.get(event="person.second_factor_reset").reason == "For the test"


def test_a_forgotten_password(mara: Client, signed_in: SignedIn) -> None:
    olga = signed_in("olga")
    assert is_empty_reason(mara.get(page_of("olga", "password/")).content.decode())
    assert submit(mara, page_of("olga", "password/"), reason="").status_code == 422
    answer = submit(mara, page_of("olga", "password/"))
    password = re.search(r'id="gh-password" data-text="([^"]+)"', answer.content.decode())[1]
    assert person("olga").check_password(password)
    assert "no-store" in answer.headers["Cache-Control"]
    assert olga.get("/admin/").status_code == 302
    assert AuditEvent.objects.get(event="person.password_changed").reason == "For the test"
    assert "set by mara" in mara.get(page_of("olga")).content.decode()


def is_empty_reason(page: str) -> bool:
    field = re.search(r'<input[^>]*name="reason"[^>]*>', page)
    assert field is not None
    return "value=" not in field[0]


def test_a_locked_name(mara: Client) -> None:
    for _ in range(sign_in_throttle.PAIR_RULE.limit):
        Client().post("/admin/login/", {"username": "tom", "password": "wrong"})
    assert "sign-in locked until" in mara.get(page_of("tom")).content.decode()
    assert submit(mara, page_of("tom", "unlock/")).status_code == 302
    assert "sign-in locked until" not in mara.get(page_of("tom")).content.decode()


def test_who_leaves_hands_over_what_is_theirs(mara: Client, signed_in: SignedIn) -> None:
    tom = signed_in("tom")
    credentials.issue(actor=SYSTEM, holder=person("tom"))
    held = handover.identities_of(person("tom")).count()
    page = mara.get(page_of("tom", "deactivate/")).content.decode()
    for said in ("Ends 1 personal token", f"{held} identities are theirs", "jira__search"):
        assert said in page
    answer = submit(mara, page_of("tom", "deactivate/"), to=str(person("olga").pk))
    assert f"{held} of {held} handed over to olga" in answer.content.decode()
    assert not handover.identities_of(person("tom")).exists()
    assert identity("jira__search").owner == person("olga")
    assert Credential.objects.get(user=person("tom")).state == GrantState.REVOKED
    assert tom.get("/admin/").status_code == 302
    assert AuditEvent.objects.get(event="person.deactivated").reason == "For the test"
    assert AuditEvent.objects.filter(event="identity.changed", actor_name="mara").count() == held


def test_who_stands_in_for_the_new_owner_already_makes_room(mara: Client) -> None:
    """Nobody backs up themselves."""
    identities.change(actor=SYSTEM, identity=identity("ci"), owner=person("tom"), backup_owner=person("olga"))
    submit(mara, page_of("tom", "hand-over/"), to="olga")
    ci = identity("ci")
    assert (ci.owner, ci.backup_owner) == (person("olga"), None)


def test_handing_over_to_oneself_or_to_nobody_changes_nothing(mara: Client) -> None:
    answer = submit(mara, page_of("tom", "deactivate/"), to=str(person("tom").pk))
    assert "Choose someone else." in answer.content.decode()
    answer = submit(mara, page_of("tom", "deactivate/"), to="nobody-of-this-name")
    assert "There is no person nobody-of-this-name" in answer.content.decode()
    assert person("tom").is_active
    assert submit(mara, page_of("tom", "hand-over/"), to="").status_code == 422


def test_who_comes_back(mara: Client) -> None:
    submit(mara, page_of("tom", "deactivate/"))
    assert not person("tom").is_active
    page = mara.get(page_of("tom")).content.decode()
    assert "Deactivated" in page
    assert "Reactivate" in page
    assert submit(mara, page_of("tom", "reactivate/")).status_code == 302
    assert person("tom").is_active


# ── Who may do what ───────────────────────────────────────────────────────────────────────────────────────────────
def test_every_right_of_a_role_has_its_line() -> None:
    said = [codename for right in RIGHTS for codename in right.codenames]
    assert len(said) == len(set(said))
    apps = (CONSOLE_ROLES, GATEWAY_ROLES, RUN_ROLES, TASK_ROLES)
    assert set(said) == set().union(*(held for roles in apps for held in roles.values()))
    assert LABELS.keys() == CONSOLE_ROLES.keys()


def test_no_line_is_half_true() -> None:
    for right in RIGHTS:
        for role, held in right.roles.items():
            assert right.codenames <= held or not right.codenames & held, (right.words, role)


def test_an_auditor_has_no_line_that_changes() -> None:
    column = list(LABELS).index("auditor")
    assert not any(line.held[column] for line in role_rights_table() if line.changes)


@pytest.mark.browser
@pytest.mark.capability("CON-06")
@pytest.mark.parametrize("options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light", "dark at 360"])
def test_axe_finds_nothing_on_a_person_and_in_the_dialogs(visit: Visit, options: dict[str, Any]) -> None:
    somebody = visit("mara", **options)
    page = somebody.page
    for path in (page_of("tom"), page_of("tom", "deactivate/"), page_of("tom", "roles/"), f"{LIST}add/"):
        somebody.open(path)
        assert not violations(page), path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    somebody.open(page_of("tom"))
    page.get_by_role("link", name="Change roles").click()
    page.get_by_role("dialog").get_by_label("Operator").check()
    page.get_by_role("dialog").get_by_text("Who may do what", exact=True).click()
    assert not violations(page)
    page.get_by_role("dialog").get_by_role("button", name="Set the roles of tom").click()
    page.get_by_text("tom is now: Operator, Approver.").wait_for()
    assert not somebody.complaints
