"""Sessions at the console: a list, a conversation that goes on while one looks, and who may say something in it."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from playwright.sync_api import expect

from nhi import actors
from nhi.models import User
from supervisor import sessions
from supervisor.access import Caller
from supervisor.models import Agent, Session, SessionMessage
from tests.console.axe import violations
from tests.console.conftest import NARROW, SignedIn, Visit
from tests.supervisor.sessions.talks import until_closed

pytestmark = pytest.mark.capability("SUP-08", "SUP-10")
LIST = "/admin/supervisor/session/"
PART = {"X-Console-Part": "1"}
#: On a machine that may have much to do.
SOON = 15_000


def opened(agent: Agent, by: str = "olga") -> Session:
    return sessions.open(caller=Caller(actors.person(User.objects.get(username=by))), agent=agent)


def said(session: Session, *texts: str, by: str = "olga") -> None:
    for text in texts:
        sessions.say(caller=Caller(actors.person(User.objects.get(username=by))), session=session, text=text)


@pytest.mark.browser
@pytest.mark.parametrize("options", [{}, {"viewport": NARROW, "color_scheme": "dark"}])
def test_a_conversation_from_its_first_word_to_its_close(
    visit: Visit, runner: object, make_talker: Callable[..., Agent], options: dict[str, object]
) -> None:
    agent = make_talker()
    olga = visit("olga", **options)
    page = olga.page
    olga.open(f"/admin/supervisor/agent/{agent.pk}/")
    page.get_by_role("link", name="Open a session").click()
    page.get_by_role("button", name="Open a session with talker").click()
    box = page.get_by_label("Message")
    box.fill("<b>Hello</b>\nyou")
    page.get_by_role("button", name="Send").click()
    log = page.get_by_role("log")
    expect(log.get_by_text("heard <b>Hello</b> you", exact=True)).to_be_visible(timeout=SOON)
    expect(box).to_have_value("")
    box.fill("And again")
    box.press("Control+Enter")
    expect(log.get_by_text("heard And again")).to_be_visible(timeout=SOON)
    expect(log.locator("[data-seq]")).to_have_count(4)
    expect(log.get_by_text("waits for the agent")).to_have_count(0, timeout=SOON)
    expect(page.get_by_text("of 30:00")).to_be_visible()
    session = Session.objects.get()
    # What somebody else says elsewhere comes too.
    said(session, "From elsewhere", by="mara")
    expect(log.get_by_text("heard From elsewhere")).to_be_visible(timeout=SOON)
    assert violations(page) == []
    page.get_by_role("link", name="Close", exact=True).click()
    page.get_by_role("button", name="Close the session with talker").click()
    expect(page.get_by_text("It is closed. What was said stays on record.")).to_be_visible(timeout=SOON)
    expect(page.get_by_text("olga: All said")).to_be_visible()
    until_closed(session)
    assert violations(page) == []
    assert olga.complaints == []


@pytest.mark.browser
def test_a_message_that_is_refused_stays_in_its_box(visit: Visit, make_talker: Callable[..., Agent]) -> None:
    session = opened(make_talker())
    olga = visit("olga")
    olga.open(f"{LIST}{session.pk}/")
    box = olga.page.get_by_label("Message")
    box.fill("é" * 40_000)
    olga.page.get_by_role("button", name="Send").click()
    expect(olga.page.get_by_text("Use at most 64 KiB.")).to_be_visible(timeout=SOON)
    expect(box).to_have_value("é" * 40_000)
    assert not SessionMessage.objects.exists()


def test_without_scripts_a_message_is_sent_and_read_all_the_same(
    signed_in: SignedIn, make_talker: Callable[..., Agent]
) -> None:
    session = opened(make_talker())
    client, page = signed_in("olga"), f"{LIST}{session.pk}/"
    answer = client.post(f"{page}say/", {"text": "Hello\r\nyou"})
    assert (answer.status_code, answer["Location"]) == (302, page)
    assert sessions.messages(session).get().text == "Hello\nyou"
    assert client.post(f"{page}say/", {"text": ""}).status_code == 422
    shown = client.get(page).content.decode()
    assert "waits for the agent" in shown
    closed = client.post(f"{page}close/", {"reason": "All said", "seen": "waiting:1"}, follow=True).content.decode()
    assert "the agent was not given this" in closed
    assert 'name="text"' not in closed
    assert client.post(f"{page}say/", {"text": "Hello?"}).status_code == 409


def test_a_house_without_sessions_says_where_the_first_is_opened(
    signed_in: SignedIn, make_talker: Callable[..., Agent]
) -> None:
    mara, agents = signed_in("mara"), "/admin/supervisor/agent/"
    page = mara.get(LIST).content.decode()
    assert "Nobody has talked to an agent yet" in page
    assert f'href="{agents}add/"' in page and "Add an interactive agent" in page
    agent = make_talker()
    page = mara.get(LIST).content.decode()
    assert f'href="{agents}?mode=interactive"' in page and "Choose an agent to talk to" in page
    assert "/api/nhi/supervisor/sessions" in page[page.index("gh-empty") : page.index("</main>")]
    assert [row["name"] for row in mara.get(f"{agents}?mode=interactive").context["rows"]] == [str(agent)]
    assert "Choose an agent" not in signed_in("ada").get(LIST).content.decode()
    narrowed = mara.get(f"{LIST}?state=closed").content.decode()
    assert "Nothing matches this filter" in narrowed and "Choose an agent" not in narrowed


def test_who_only_reads_is_offered_nothing_and_asks_nothing(
    signed_in: SignedIn, make_talker: Callable[..., Agent]
) -> None:
    session = opened(make_talker())
    said(session, "Hello")
    page = f"{LIST}{session.pk}/"
    for reader in ("tom", "ada"):
        client = signed_in(reader)
        shown = client.get(page).content.decode()
        assert "Hello" in shown
        assert 'name="text"' not in shown and f"{page}close/" not in shown
        for verb in ("say", "close"):
            assert client.post(f"{page}{verb}/", {"text": "x", "reason": "x"}).status_code == 403
    assert 'data-news=""' in shown


def test_the_run_of_a_conversation_leads_to_its_words_and_opening_one_says_who_reads_them(
    signed_in: SignedIn, make_talker: Callable[..., Agent]
) -> None:
    session = opened(make_talker())
    olga = signed_in("olga")
    page = olga.get(f"/admin/supervisor/execution/{session.execution_id}/").content.decode()
    assert f'<a href="{LIST}{session.pk}/">' in page
    assert "what is said stands in its session" in page
    assert "approvers and auditors" in olga.get(f"{LIST}open/{session.agent_id}/").content.decode()
    assert str(session.execution) in olga.get(LIST).content.decode()


def test_a_session_is_hidden_from_who_may_not_see_it(signed_in: SignedIn, make_talker: Callable[..., Agent]) -> None:
    session = opened(make_talker(), by="mara")
    User.objects.create_user("eve", password="x")  # no role, no grant
    eve = signed_in("eve")
    for path in ("", "news/", "say/", "close/"):
        assert eve.get(f"{LIST}{session.pk}/{path}").status_code in {302, 403, 404}


def test_a_long_conversation_is_shown_from_its_end(signed_in: SignedIn, make_talker: Callable[..., Agent]) -> None:
    session = opened(make_talker())
    SessionMessage.objects.bulk_create(
        SessionMessage(session=session, seq=number, direction="out", text=f"line {number};") for number in range(1, 251)
    )
    client = signed_in("mara")
    page = f"{LIST}{session.pk}/"
    with CaptureQueriesContext(connection) as asked:
        shown = client.get(page).content.decode()
    assert len(asked) <= 20, [query["sql"] for query in asked]
    assert "line 250;" in shown and "line 51;" in shown and "line 50;" not in shown
    earlier = client.get(f"{page}?before=51").content.decode()
    assert "line 50;" in earlier and "line 1;" in earlier and "line 51;" not in earlier
    assert 'name="text"' not in earlier
    news = client.get(f"{page}news/?after=249", headers=PART).content.decode()
    assert "line 250;" in news and "line 249;" not in news
    listed = client.get(LIST).content.decode()
    assert "talker" in listed
    assert "Waits for a place" in listed
