"""One identity: adding, editing, moving, its credentials and its access, all through the verbs."""

import pytest
from django.test import Client

from nhi.actors import SYSTEM
from nhi.choices import State
from nhi.credentials import credentials
from nhi.models import AuditEvent, Credential, Identity, ToolPermission
from tests.console.conftest import SignedIn, hub, identity
from tests.nhi.cast import user

pytestmark = pytest.mark.capability("CON-05")
ADD = "/admin/nhi/identity/add/"


def filled(**changed: str) -> dict[str, str]:
    usual = {"kind": "agent", "name": "release-bot", "owner": "mara", "inactivity_days": "90", "do": "active"}
    return {**usual, **changed}


def test_the_form_begins_with_me_as_the_owner(mara: Client) -> None:
    form = mara.get(ADD).context["form"]
    assert form["owner"].value() == "mara"


@pytest.mark.capability("NHI-01")
def test_created_active_or_inactive_by_the_button(mara: Client) -> None:
    assert mara.post(ADD, filled()).status_code == 302
    assert mara.post(ADD, filled(name="second-bot", do="inactive")).status_code == 302
    assert identity("release-bot").state == State.ACTIVE
    assert identity("second-bot").state == State.INACTIVE
    assert AuditEvent.objects.filter(event="identity.created", subject_name="release-bot").exists()


@pytest.mark.parametrize(
    ("changed", "field", "status"),
    [
        ({"name": "Not A Name"}, "name", 400),
        ({"name": "deploy-bot"}, "name", 409),
        ({"tags": "UPPER"}, "tags", 400),
        ({"expires_at": "2001-01-01T00:00"}, "expires_at", 400),
        ({"capability": "github.read"}, "capability", 400),
        ({"owner": "nobody"}, "owner", 422),
    ],
)
def test_what_the_verb_refuses_stands_beside_its_field(
    mara: Client, changed: dict[str, str], field: str, status: int
) -> None:
    """With the status that the verb's refusal has everywhere; 422 where the form could not even be read."""
    page = mara.post(ADD, filled(**changed))
    assert page.status_code == status
    assert page.context["form"].errors[field]
    assert not Identity.objects.filter(name="release-bot").exists()


def test_an_edit_changes_what_was_altered_and_nothing_else(mara: Client) -> None:
    before = identity("writer")
    page = mara.get(hub("writer", "change/"))
    body = {name: page.context["form"][name].value() or "" for name in page.context["form"].fields}
    body["tags"] = ", ".join(before.tags)
    body["expires_at"] = before.expires_at.strftime("%Y-%m-%dT%H:%M") if before.expires_at else ""
    assert mara.post(hub("writer", "change/"), {**body, "purpose": "Drafts notes"}).status_code == 302
    after = identity("writer")
    assert after.purpose == "Drafts notes"
    assert after.expires_at == before.expires_at
    event = AuditEvent.objects.get(event="identity.changed", subject_name="writer")
    assert event.after == {"purpose": "Drafts notes"}


@pytest.mark.capability("NHI-02")
def test_each_move_asks_for_a_reason_and_is_done_by_the_verb(mara: Client) -> None:
    for page, state in (
        ("deactivate/", State.INACTIVE),
        ("activate/", State.ACTIVE),
        ("deprecate/", State.DEPRECATED),
    ):
        seen = mara.get(hub(tab=page)).context["seen"]
        assert mara.post(hub(tab=page), {"reason": "", "seen": seen}).status_code == 422
        assert mara.post(hub(tab=page), {"reason": "Planned", "seen": seen}).status_code == 302
        assert identity().state == state


@pytest.mark.capability("NHI-02")
def test_archiving_wants_the_name_typed(mara: Client) -> None:
    mara.post(hub(tab="deprecate/"), {"reason": "Replaced", "seen": mara.get(hub(tab="deprecate/")).context["seen"]})
    seen = mara.get(hub(tab="archive/")).context["seen"]
    assert mara.post(hub(tab="archive/"), {"reason": "Replaced", "seen": seen}).status_code == 422
    assert identity().state == State.DEPRECATED
    done = mara.post(hub(tab="archive/"), {"reason": "Replaced", "seen": seen, "typed": "deploy-bot"})
    assert done.status_code == 302
    assert identity().state == State.ARCHIVED


@pytest.mark.capability("NHI-02")
def test_what_the_state_forbids_is_said_and_offers_no_button(mara: Client) -> None:
    html = mara.get(hub(tab="archive/")).content.decode()
    assert "deploy-bot is active and cannot become archived." in html
    assert "data-dialog-form" in html
    assert "Archive deploy-bot</button>" not in html
    assert "Only what is deprecated can be archived." in mara.get(hub()).content.decode()


@pytest.mark.capability("NHI-02")
def test_a_dialog_comes_back_when_its_effect_grew(mara: Client) -> None:
    one = identity("writer")
    seen = mara.get(hub("writer", "stop/")).context["seen"]
    credentials.issue(actor=SYSTEM, holder=one)
    again = mara.post(hub("writer", "stop/"), {"reason": "Leaked token", "seen": seen})
    assert again.status_code == 409
    assert "More would end now" in again.content.decode()
    assert "Refuses 1 credential from now on" in again.content.decode()
    assert identity("writer").state == State.ACTIVE
    done = mara.post(hub("writer", "stop/"), {"reason": "Leaked token", "seen": again.context["seen"]})
    assert "1 credential refused" in done.content.decode()
    assert identity("writer").state == State.SUSPENDED


@pytest.mark.capability("NHI-02")
def test_a_lost_race_changes_nothing_and_says_so(mara: Client) -> None:
    page = mara.get(hub(tab="stop/"))
    mara.post(hub(tab="stop/"), {"reason": "First", "seen": page.context["seen"]})
    second = mara.post(hub(tab="stop/"), {"reason": "Second", "seen": page.context["seen"]})
    assert second.status_code == 409
    assert identity().state_reason == "First"


@pytest.mark.capability("NHI-03")
def test_a_token_is_shown_once_and_no_page_keeps_it(mara: Client) -> None:
    seen = {"days": "90", "networks": "", "seen": ""}
    page = mara.post(hub(tab="credentials/issue/"), seen)
    token = page.context["issued"].token
    assert "no-store" in page["Cache-Control"]
    assert token in page.content.decode()
    for path in (hub(), hub(tab="credentials/"), hub(tab="changes/"), "/admin/"):
        assert token not in mara.get(path).content.decode()
    made = Credential.objects.get(identity=identity())
    assert made.public_id in page.content.decode()


@pytest.mark.capability("NHI-03")
def test_a_third_live_credential_is_refused_with_the_way_out(mara: Client) -> None:
    for _ in range(2):
        credentials.issue(actor=SYSTEM, holder=identity())
    page = mara.get(hub(tab="credentials/"))
    assert "Two are live. Revoke one first." in page.content.decode()
    refused = mara.post(hub(tab="credentials/issue/"), {"days": "90", "networks": ""})
    assert refused.status_code == 409
    assert "Revoke one first." in refused.content.decode()


@pytest.mark.capability("NHI-03")
def test_networks_are_read_and_the_wrong_ones_named(mara: Client) -> None:
    refused = mara.post(hub(tab="credentials/issue/"), {"days": "30", "networks": "10.0.0.0/8, elsewhere"})
    assert "elsewhere" in str(refused.context["form"].errors["networks"])
    mara.post(hub(tab="credentials/issue/"), {"days": "30", "networks": "10.0.0.0/8, 192.0.2.7"})
    assert Credential.objects.get(identity=identity()).allowed_networks == ["10.0.0.0/8", "192.0.2.7/32"]


@pytest.mark.capability("NHI-03")
def test_rotate_says_which_ends_when_and_revoke_ends_it(mara: Client) -> None:
    old = credentials.issue(actor=SYSTEM, holder=identity()).credential
    page = mara.post(hub(tab=f"credentials/{old.pk}/rotate/"), {"overlap": "86400"})
    assert f"The old one, …{old.public_id[-4:]}, ends" in page.content.decode()
    revoke = hub(tab=f"credentials/{old.pk}/revoke/")
    done = mara.post(revoke, {"reason": "Leaked", "seen": mara.get(revoke).context["seen"]})
    assert done.status_code == 302
    old.refresh_from_db()
    assert old.revoke_reason == "Leaked"


@pytest.mark.capability("NHI-05")
def test_access_is_given_with_its_limits_and_its_end(mara: Client) -> None:
    body = {
        "what": "pattern", "pattern": "jira.*", "ends": "7", "parameters": '{"minProperties": 1}', "reason": "Trial",
        "seen": "",
    }  # fmt: skip
    assert mara.post(hub(tab="give/"), body).status_code == 302
    given = ToolPermission.objects.live().filter(agent=identity(), tool__name__startswith="jira__")
    assert given.count() == Identity.objects.filter(name__startswith="jira__").count()
    assert [grant.allowed_parameters for grant in given] == [{"minProperties": 1}] * len(given)
    assert {grant.reason for grant in given} == {"Trial"}


@pytest.mark.capability("NHI-05")
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"pattern": "jira.*"}, "Adds 2 grants"),
        ({"pattern": "nothing.*"}, "No tool matches this."),
        ({"pattern": "not a pattern"}, "This is no pattern"),
        ({"what": "server", "server": "github"}, "exist already"),
        ({"pattern": "jira.*", "ends": "never"}, "High risk"),
    ],
)
def test_the_live_line_says_what_would_be_added(mara: Client, changed: dict[str, str], words: str) -> None:
    before = ToolPermission.objects.count()
    body = {"what": "pattern", "pattern": "", "ends": "30", "reason": "Trial", **changed}
    assert words in mara.post(hub(tab="give/preview/"), body).content.decode()
    assert ToolPermission.objects.count() == before


@pytest.mark.capability("NHI-05")
def test_access_is_copied_with_a_result_for_each(mara: Client) -> None:
    wrong = mara.post(hub(tab="copy-access/"), {"to": "nobody-here"})
    assert wrong.context["form"].errors["to"]
    page = mara.post(hub(tab="copy-access/"), {"to": "writer"})
    assert [item.result for item in page.context["results"]] == ["created"]
    assert ToolPermission.objects.live().filter(agent__name="writer").count() == 1


@pytest.mark.capability("NHI-12")
def test_who_sees_nothing_is_told_the_same_as_for_what_does_not_exist(signed_in: SignedIn) -> None:
    mara = signed_in("mara")
    absent = mara.get("/admin/nhi/identity/01a1ee5e-6f92-771d-8d80-4582557b7411/")
    assert absent.status_code == 404
    assert "There is nothing here that you can see." in absent.content.decode()


def test_a_dialog_over_a_page_is_only_its_part_and_leads_on_by_a_header(mara: Client) -> None:
    part = mara.get(hub(tab="deactivate/"), headers={"X-Console-Part": "1"})
    assert "<html" not in part.content.decode()
    assert 'id="gh-dialog-title"' in part.content.decode()
    done = mara.post(
        hub(tab="deactivate/"),
        {"reason": "Planned", "seen": part.context["seen"]},
        headers={"X-Console-Part": "1"},
    )
    assert done.status_code == 204
    assert done["X-Console-Go"] == hub()


@pytest.mark.capability("CON-01")
def test_an_auditor_sees_no_control(signed_in: SignedIn) -> None:
    ada = signed_in("ada")
    for path in ("/admin/", "/admin/nhi/identity/", hub(), hub(tab="access/"), hub(tab="credentials/")):
        html = ada.get(path).content.decode()
        main = html[html.index("<main") : html.index("</main>")]
        for control in ("data-dialog", 'method="post"', "data-tick"):
            assert control not in main, f"{path}: {control}"


@pytest.mark.capability("NHI-04")
def test_the_connect_tab_tells_which_part_of_a_token_is_its_public_id(mara: Client) -> None:
    page = mara.get(hub(tab="connect/")).content.decode()
    assert "$PUBLIC_ID for the part between its second and third underscore" in page
    issued = credentials.issue(actor=SYSTEM, holder=identity("triage-bot"), days=30)
    assert issued.token.split("_")[2] == issued.credential.public_id


@pytest.mark.parametrize(
    ("kind", "label"), [("tool", "Add tool"), ("service_account", "Add service account"), ("", "Add agent")]
)
def test_each_tab_adds_what_it_lists(mara: Client, kind: str, label: str) -> None:
    controls = mara.get("/admin/nhi/identity/", {"kind": kind} if kind else {}).context["controls"]
    assert [control.label for control in controls] == [label]
    assert mara.get(controls[0].url).context["form"].initial["kind"] == (kind or "agent")


def test_an_owner_without_a_role_is_told_of(mara: Client) -> None:
    user("dev")
    fields = {"kind": "agent", "name": "devs-own", "owner": "dev", "inactivity_days": "90", "do": "active"}
    answer = mara.post("/admin/nhi/identity/add/", fields, follow=True)
    assert "dev has no console role, so no console: they use the API" in answer.content.decode()


def test_what_is_refused_of_a_pattern_is_said_once(mara: Client) -> None:
    body = {"what": "pattern", "pattern": "nothing.*", "ends": "30", "reason": "Trial", "seen": ""}
    answer = mara.post(hub(tab="give/"), body)
    assert answer.content.decode().count("No tool matches this.") == 1
    known = Identity.objects.filter(kind="tool", state="active").values_list("capability", flat=True)
    assert any(name in answer.context["form"].fields["pattern"].help_text for name in known)


def test_a_date_says_whose_clock_it_goes_by(mara: Client) -> None:
    assert "Time zone: UTC." in mara.get(hub(tab="give/")).content.decode()
