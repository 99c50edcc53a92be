"""Calls that wait for a person, at the console: exactly what would be sent, and a decision with a reason."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp.choices import ApprovalState
from mcp.models import CallApproval, Server
from nhi.actors import SYSTEM
from nhi.choices import State
from nhi.identities import lifecycle
from nhi.models import AuditEvent, Identity, User
from tests.console.axe import violations
from tests.console.calling import asked, call, registered
from tests.console.conftest import NARROW, SignedIn, Visit, identity
from tests.mcp.behind import stand_behind_a_server

pytestmark = pytest.mark.capability("NHI-14", "CON-05")

LIST = "/admin/mcp/callapproval/"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


@pytest.fixture(autouse=True)
def _in_nobody_elses_hands(request: pytest.FixtureRequest) -> None:
    """Whoever stands in for an owner decides about nothing of theirs."""
    if "signed_in" in request.fixturenames or "visit" in request.fixturenames:
        request.getfixturevalue("visit" if "visit" in request.fixturenames else "seeded")
        Identity.objects.update(backup_owner=None)


def page(client: Client, approval: CallApproval, part: str = "") -> str:
    answer = client.get(f"{LIST}{approval.pk}/{part}")
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def answered(client: Client, approval: CallApproval, verb: str, reason: str, query: str = "") -> Any:
    """As a browser would post the form that it was shown."""
    where = f"{LIST}{approval.pk}/{verb}/{query}"
    proof = re.search(r'name="arguments_proof" value="([^"]+)"', client.get(where).content.decode())
    return client.post(where, {"reason": reason, "arguments_proof": proof.group(1) if proof else ""})


def test_what_waits_comes_first_and_says_how_long_there_is(mara: Client, signed_in: SignedIn) -> None:
    old = asked("triage-bot", state=ApprovalState.REFUSED, decided_at=timezone.now(), decided_by_name="tom")
    late = asked("planner", ago=3600)
    waiting = asked(ago=270)
    answer = signed_in("tom").get(LIST)
    assert next(row["id"] for row in answer.context_data["rows"]) == str(waiting.pk)
    text = answer.content.decode()
    assert "10 min left" in text
    assert f"{LIST}{waiting.pk}/approve/" in text
    assert f"{LIST}{late.pk}/approve/" not in text
    for state, row in (("pending", waiting), ("refused", old), ("expired", late)):
        shown = mara.get(LIST, {"state": state}).context_data["rows"]
        assert [one["id"] for one in shown] == [str(row.pk)], state


def test_who_decides_sees_exactly_what_would_be_sent_and_others_without_secrets(signed_in: SignedIn) -> None:
    registered()
    approval = asked(arguments={"title": "Ship", "token": SECRET}, context={"user_instruction": "Ship it \u202enow"})
    text = page(signed_in("tom"), approval)
    assert SECRET in text
    assert "Exactly as the agent sent them" in text
    assert "U+202E" in text
    for name in ("ada", "olga", "mara"):
        text = page(signed_in(name), approval)
        assert SECRET not in text, name
        assert "Ship" in text


def test_who_may_not_decide_reads_why(signed_in: SignedIn, mara: Client) -> None:
    approval = asked()
    own = page(mara, approval)
    assert "deploy-bot is in your hands, so someone else must decide about its calls." in own
    assert f"{approval.pk}/refuse/" not in own
    assert "You may not decide about calls." in page(signed_in("olga"), approval)
    assert mara.get(f"{LIST}{approval.pk}/approve/").status_code == 403
    assert mara.post(f"{LIST}{approval.pk}/approve/", {"reason": "Mine"}).status_code == 403
    assert signed_in("ada").post(f"{LIST}{approval.pk}/approve/", {"reason": "No"}).status_code == 403


@pytest.mark.parametrize(("verb", "state"), [("approve", ApprovalState.APPROVED), ("refuse", ApprovalState.REFUSED)])
def test_a_decision_needs_a_reason_and_goes_on_record(signed_in: SignedIn, verb: str, state: ApprovalState) -> None:
    tom, approval = signed_in("tom"), asked(arguments={"title": "Ship", "token": SECRET})
    where = f"{LIST}{approval.pk}/{verb}/"
    assert SECRET in page(tom, approval, f"{verb}/")
    assert tom.post(where, {"reason": ""}).status_code == 422
    assert answered(tom, approval, verb, "Planned work").status_code == 302
    approval.refresh_from_db()
    assert approval.state == state
    assert approval.sealed_arguments == ""
    assert AuditEvent.objects.filter(event=f"approval.{state}", reason="Planned work").exists()
    text = page(tom, approval)
    assert SECRET not in text
    assert "Planned work" in text
    again = answered(tom, approval, verb, "Twice")
    assert again.status_code == 409
    assert "Nothing was changed." in again.content.decode()


def test_long_arguments_are_approved_only_by_who_was_shown_all_of_them(signed_in: SignedIn) -> None:
    approval = asked(arguments={"body": "word " * 10_000, "then": "drop the database"})
    tom, where = signed_in("tom"), f"{LIST}{approval.pk}/approve/"
    cut = page(tom, approval, "approve/")
    assert "drop the database" not in cut
    assert "arguments_proof" not in cut
    assert '<button type="submit" class="gh-btn gh-btn--primary">' not in cut
    assert f'href="{where}?arguments=whole" data-dialog' in cut
    refused = tom.post(where, {"reason": "Fine"})
    assert refused.status_code == 409
    assert "does not prove that it showed all of the arguments" in refused.content.decode()
    assert "drop the database" in page(tom, approval, "?arguments=whole")
    assert "drop the database" in page(tom, approval, "approve/?arguments=whole")
    assert answered(tom, approval, "approve", "Read to the end", "?arguments=whole").status_code == 302
    approval.refresh_from_db()
    assert (approval.state, approval.reason) == (ApprovalState.APPROVED, "Read to the end")


def test_the_proof_is_for_one_person_and_one_call(signed_in: SignedIn) -> None:
    approval, other = asked(), asked(arguments={"title": "Other"})
    for place in (approval, other):
        shown = page(signed_in("admin"), place, "approve/")
        proof = re.search(r'name="arguments_proof" value="([^"]+)"', shown)
        assert proof is not None
        given = {"reason": "Fine", "arguments_proof": proof.group(1)}
        assert signed_in("tom").post(f"{LIST}{approval.pk}/approve/", given).status_code == 409
    approval.refresh_from_db()
    assert approval.state == ApprovalState.PENDING


def test_a_refusal_needs_no_whole_arguments(signed_in: SignedIn) -> None:
    approval = asked(arguments={"body": "word " * 10_000})
    tom = signed_in("tom")
    assert tom.post(f"{LIST}{approval.pk}/refuse/", {"reason": "Too long to read"}).status_code == 302


def test_the_dialog_says_whose_words_they_are_and_types_no_reason(signed_in: SignedIn) -> None:
    approval = asked(context={"user_instruction": "The boss wants it"})
    for verb in ("approve", "refuse"):
        text = page(signed_in("tom"), approval, f"{verb}/")
        assert "own words: nobody has checked them." in text
        field = re.search(r'<input[^>]*name="reason"[^>]*>', text)
        assert field is not None
        assert "value=" not in field.group()
        assert "placeholder" not in field.group()


def test_whoever_approves_hears_that_the_call_would_still_be_refused(signed_in: SignedIn) -> None:
    stand_behind_a_server([identity("github__create_issue")])
    tom, approval = signed_in("tom"), asked()
    warning = "It would still be refused:"
    assert warning not in page(tom, approval, "approve/")
    lifecycle.suspend(actor=SYSTEM, identity=identity(), reason="Leaked token")
    for part in ("", "approve/"):
        text = page(tom, approval, part)
        assert warning in text
        assert "deploy-bot is suspended." in text
        assert "then activate it." in text
    assert warning not in page(tom, approval, "refuse/")
    Identity.objects.filter(pk=identity().pk).update(state=State.ACTIVE)
    Server.objects.filter(name="srv").update(enabled=False)
    assert "The server srv is disabled." in page(tom, approval, "approve/")


def test_past_calls_alike_stand_beside_it(signed_in: SignedIn) -> None:
    approval = asked()
    alike, other = call(ago=500), call("deploy-bot", "jira", "search", ago=400)
    text = page(signed_in("tom"), approval)
    assert str(alike.pk) in text
    assert str(other.pk) not in text


def test_home_and_sidebar_count_what_this_person_may_decide(signed_in: SignedIn, mara: Client) -> None:
    asked()
    asked("triage-bot", arguments={"title": "Other"})
    asked("planner", ago=3600)
    cards = {name: _cards(signed_in(name)) for name in ("admin", "tom", "mara", "olga", "ada")}
    assert [card[:-5] for card in cards["admin"]] == ["2 calls wait for approval · oldest "]
    assert [card[:27] for card in cards["tom"]] == ["1 call waits for approval ·"]
    # She made the credentials of all of them.
    assert cards["mara"] == cards["olga"] == cards["ada"] == []


def test_many_that_wait_ask_no_more_than_a_few(signed_in: SignedIn) -> None:
    asked()
    tom, counts = signed_in("tom"), []
    for _ in range(2):
        cache.clear()
        with CaptureQueriesContext(connection) as seen:
            assert tom.get(LIST).status_code == 200
        counts.append(len(seen))
        for number in range(20):
            asked("planner", arguments={"title": str(number)})
    assert counts[1] <= counts[0] <= 15


def _cards(client: Client) -> list[str]:
    return [card["words"] for card in client.get("/admin/").context["cards"] if "approval ·" in card["words"]]


def test_an_owner_without_a_role_follows_the_calls_of_their_agents(signed_in: SignedIn) -> None:
    own, other = asked("writer"), asked()
    olga = signed_in("olga")
    User.objects.get(username="olga").groups.clear()
    assert [row["id"] for row in olga.get(LIST).context_data["rows"]] == [str(own.pk)]
    assert olga.get(f"{LIST}{own.pk}/").status_code == 200
    assert olga.get(f"{LIST}{other.pk}/").status_code == 404


@pytest.mark.browser
def test_a_waiting_call_is_answered_in_three_steps(visit: Visit) -> None:
    approval = asked()
    tom = visit("tom")
    page = tom.page
    tom.open("/admin/")
    tom.step(page.get_by_role("link", name="1 call waits for approval"))
    tom.step(page.get_by_role("link", name="Approve github__create_issue by deploy-bot"))
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Ship 1.0").wait_for()
    reason = dialog.get_by_role("textbox", name="Reason")
    assert reason.input_value() == ""
    reason.fill("Ship it today, as planned")
    tom.step(dialog.get_by_role("button", name="Approve github__create_issue by deploy-bot"))
    page.get_by_text("approved. The agent has 15 minutes").wait_for()
    assert tom.steps <= 3
    approval.refresh_from_db()
    assert approval.state == ApprovalState.APPROVED
    assert approval.expires_at - timezone.now() > timedelta(minutes=14)
    assert not tom.complaints


@pytest.mark.browser
@pytest.mark.parametrize("options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light", "narrow, dark"])
def test_approvals_are_accessible_and_fit(visit: Visit, options: dict[str, Any]) -> None:
    tom = visit("tom", **options)
    registered()
    approval = asked(arguments={"body": "word " * 200})
    for path in (LIST, f"{LIST}{approval.pk}/", f"{LIST}{approval.pk}/approve/"):
        tom.settled(path)
        assert not violations(tom.page), path
        assert tom.page.evaluate("document.documentElement.scrollWidth === innerWidth"), path
    assert not tom.complaints
