"""The list of credentials: how they stand, who handles them, and that no page ever shows a secret."""

import csv
import io
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.choices import GrantState
from nhi.credentials import credentials
from nhi.models import AuditEvent, Credential, Identity, User
from tests.console.axe import violations
from tests.console.conftest import NARROW, SignedIn, Visit, identity

pytestmark = pytest.mark.capability("NHI-04", "CON-05")

LIST, BULK = "/admin/nhi/credential/", "/admin/nhi/credential/bulk/revoke/"
Most = Callable[..., Any]


def shown(client: Client, **query: str) -> list[dict[str, Any]]:
    answer = client.get(LIST, query)
    assert answer.status_code == 200
    return list(answer.context_data["rows"])


def words(row: dict[str, Any]) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", str(cell["html"])) for cell in row["cells"])


def one(name: str) -> Credential:
    return Credential.objects.filter(identity__name=name).earliest("created_at")


def age(credential: Credential, **columns: Any) -> None:
    """As time would have left it; the verbs make no old ones."""
    Credential.objects.filter(pk=credential.pk).update(**columns)


@pytest.fixture
def standings(seeded: None) -> dict[str, Credential]:
    """One of each standing."""
    now = timezone.now()
    for name in ("deploy-bot", "planner", "writer", "nightly-report"):
        credentials.issue(actor=SYSTEM, holder=identity(name))
    credentials.rotate(actor=SYSTEM, credential=one("deploy-bot"))
    credentials.revoke(actor=SYSTEM, credential=one("planner"), reason="Leaked")
    age(one("writer"), created_at=now - timedelta(days=200), expires_at=now - timedelta(days=1))
    age(one("nightly-report"), expires_at=now + timedelta(days=6, minutes=5))
    names = ("ci", "triage-bot", "deploy-bot", "planner", "writer", "nightly-report")
    return {name: one(name) for name in names}


def test_each_standing_has_its_badge(mara: Client, standings: dict[str, Credential]) -> None:
    said = {row["id"]: words(row) for row in shown(mara)}
    expected = {
        "ci": "Live", "deploy-bot": "Rotating, old ends", "planner": "Revoked", "writer": "Expired",
        "nightly-report": "Ends in 6 d",
    }  # fmt: skip
    for name, badge in expected.items():
        assert badge in said[str(standings[name].pk)], name
        assert f"…{standings[name].public_id[-4:]}" in said[str(standings[name].pk)]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"state": "rotating"}, {"deploy-bot"}),
        ({"state": "ends_soon"}, {"nightly-report", "deploy-bot"}),
        ({"state": "expired"}, {"writer"}),
        ({"state": "revoked"}, {"planner"}),
        ({"age": "180"}, {"writer"}),
        ({"ends": "7", "owner": "olga"}, {"nightly-report"}),
        ({"owner": "tom"}, {"triage-bot"}),
        ({"unused": "90"}, {"writer"}),
        ({"q": "triage"}, {"triage-bot"}),
    ],
)
@pytest.mark.both_databases
def test_it_is_narrowed(mara: Client, standings: dict[str, Credential], query: dict[str, str], names: set[str]) -> None:
    ids = [row["id"] for row in shown(mara, **query)]
    assert {credential.identity.name for credential in Credential.objects.filter(pk__in=ids)} == names


def test_what_works_and_ends_first_stands_first(mara: Client, standings: dict[str, Credential]) -> None:
    order = [Credential.objects.get(pk=row["id"]) for row in shown(mara)]
    live = [credential for credential in order if credential.state == GrantState.LIVE]
    assert order[: len(live)] == live
    assert live == sorted(live, key=lambda credential: credential.expires_at)


def test_no_page_and_no_export_holds_a_digest_or_a_token(signed_in: SignedIn, seeded: None) -> None:
    issued = credentials.issue(actor=SYSTEM, holder=identity("writer"))
    secret, digest = issued.token.rpartition("_")[2], bytes(issued.credential.digest).hex()
    admin = signed_in("admin")
    for answer in (admin.get(LIST), admin.post(LIST, {"export": "csv"})):
        body = answer.content.decode()
        assert secret not in body
        assert digest not in body
        assert issued.credential.public_id in body


def test_an_export_names_what_the_list_shows(mara: Client, standings: dict[str, Credential]) -> None:
    answer = mara.post(LIST, {"export": "csv"}, query_params={"state": "revoked"})
    lines = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert [(line["Whose"], line["Public id"], line["State"]) for line in lines] == [
        ("planner", standings["planner"].public_id, "Revoked")
    ]
    assert AuditEvent.objects.get(event="export.made").details == {"rows": 1, "query": "state=revoked"}


def test_an_owner_sees_and_handles_their_own(signed_in: SignedIn, standings: dict[str, Credential]) -> None:
    olga = signed_in("olga")
    rows = {row["id"]: words(row) for row in shown(olga)}
    handled = {str(standings[name].pk) for name in ("nightly-report", "writer", "triage-bot")}
    assert rows.keys() == handled
    assert "Rotate" in rows[str(standings["nightly-report"].pk)]
    assert "Revoke" not in rows[str(standings["writer"].pk)]


def test_who_only_reads_gets_no_verb(signed_in: SignedIn, standings: dict[str, Credential]) -> None:
    ada = signed_in("ada")
    assert not any("Revoke " in words(row) or "Rotate" in words(row) for row in shown(ada))
    assert not ada.get(LIST).context_data["bulk"]
    assert ada.get(BULK, {"id": str(standings["ci"].pk)}).status_code == 403


def test_two_live_ones_cannot_be_rotated(mara: Client, standings: dict[str, Credential]) -> None:
    said = next(words(row) for row in shown(mara, state="rotating"))
    assert "Two are live: revoke one to rotate." in said
    assert "Rotate " not in said


def revoke(client: Client, ids: list[str], **body: str) -> Any:
    query = {"id": ids}
    page = client.get(BULK, query).content.decode()
    seen = re.search(r'name="seen" value="([^"]*)"', page)[1]
    return client.post(BULK, {"reason": "Leaked", "seen": seen, **body}, query_params=query)


def test_several_are_revoked_after_a_page_that_counts(mara: Client, standings: dict[str, Credential]) -> None:
    ids = [str(standings[name].pk) for name in ("ci", "triage-bot", "planner")]
    page = mara.get(BULK, {"id": ids}).content.decode()
    for said in ("Revoke 2 credentials", "Ends 2 credentials", "Leaves 2 identities without any", "1 skipped"):
        assert said in page
    answer = revoke(mara, ids)
    assert "Revoke: 2 of 3 done" in answer.content.decode()
    states = [Credential.objects.get(pk=standings[name].pk).state for name in ("ci", "triage-bot")]
    assert states == [GrantState.REVOKED] * 2
    assert AuditEvent.objects.filter(event="credential.revoked", actor_name="mara", reason="Leaked").count() == 2


def test_more_than_was_counted_is_asked_again(mara: Client, standings: dict[str, Credential]) -> None:
    ids = [str(standings[name].pk) for name in ("ci", "triage-bot")]
    assert revoke(mara, ids, seen="credentials:1,mute:0").status_code == 409
    assert Credential.objects.get(pk=standings["ci"].pk).state == GrantState.LIVE


def test_what_one_may_not_revoke_is_refused_by_name(signed_in: SignedIn, seeded: None) -> None:
    """Olga sees a credential of an identity that she may use with `manage`, and no other."""
    olga = signed_in("olga")
    answer = revoke(olga, [str(one("ci").pk), str(one("triage-bot").pk)])
    assert "Revoke: 1 of 1 done" in answer.content.decode()
    assert one("ci").state == GrantState.LIVE


def test_over_twenty_the_number_is_typed(mara: Client) -> None:
    owner = User.objects.get(username="mara")
    many = Identity.objects.bulk_create(
        [Identity(kind="agent", name=f"bot-{i}", owner=owner, state="active") for i in range(21)]
    )
    ids = [str(credentials.issue(actor=SYSTEM, holder=bot).credential.pk) for bot in many]
    assert revoke(mara, ids).status_code == 422
    assert "Revoke: 21 of 21 done" in revoke(mara, ids, typed="21").content.decode()


def test_a_personal_token_is_revoked_from_the_list(signed_in: SignedIn, seeded: None) -> None:
    tom = User.objects.get(username="tom")
    token = credentials.issue(actor=SYSTEM, holder=tom).credential
    path = f"{LIST}{token.pk}/revoke/"
    assert signed_in("olga").get(path).status_code == 404
    mara = signed_in("mara")
    assert words(shown(mara, owner="tom", q="tom")[0]).split()[0] == "tom"
    assert mara.post(path, {"reason": "Leaked", "seen": "credentials:1"}).status_code == 302
    token.refresh_from_db()
    assert token.state == GrantState.REVOKED


@pytest.mark.both_databases
def test_the_list_costs_the_same_with_thousands(mara: Client, django_assert_max_num_queries: Most) -> None:
    with django_assert_max_num_queries(15) as few:
        shown(mara)
    owner = User.objects.get(username="mara")
    bots = Identity.objects.bulk_create(
        [Identity(kind="agent", name=f"bot-{i}", owner=owner, state="active") for i in range(2000)]
    )
    now = timezone.now()
    Credential.objects.bulk_create(
        [
            Credential(
                identity=bot, public_id=f"{i:016d}", digest=i.to_bytes(32), expires_at=now + timedelta(minutes=i + 9)
            )
            for i, bot in enumerate(bots)
        ]
    )
    with django_assert_max_num_queries(len(few.captured_queries)):
        assert len(shown(mara)) == 50


def test_a_stranger_to_an_identity_does_not_see_its_credential(signed_in: SignedIn, seeded: None) -> None:
    tom = signed_in("tom")
    assert {row["name"] for row in shown(tom)} >= {f"…{one('triage-bot').public_id[-4:]}"}
    before = len(shown(signed_in("olga")))
    grants.give_user(
        actor=SYSTEM, nhi=identity("ci"), user=User.objects.get(username="olga"), level="manage", reason="On call"
    )
    assert len(shown(signed_in("olga"))) == before + 1


@pytest.mark.browser
@pytest.mark.capability("CON-06")
@pytest.mark.parametrize("options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light", "dark at 360"])
def test_axe_finds_nothing_on_the_list_and_in_its_dialogs(visit: Visit, options: dict[str, Any]) -> None:
    somebody = visit("mara", **options)
    somebody.open(LIST)
    page = somebody.page
    assert not violations(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_label("Tick all rows of this page").check()
    page.get_by_role("button", name="Revoke", exact=True).click()
    page.get_by_role("dialog").get_by_role("textbox", name="Reason").wait_for()
    assert not violations(page)
    page.keyboard.press("Escape")
    if not options:
        # A narrow list has no verbs: they are on the page that the row opens.
        page.get_by_role("link", name=re.compile("Rotate")).first.click()
        page.get_by_role("dialog").get_by_text("24 hours").wait_for()
        assert not violations(page)
    assert not somebody.complaints
