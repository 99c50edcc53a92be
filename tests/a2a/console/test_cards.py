"""Cards and endpoints at the console: the list, the tab of an agent with its four parts, and every change."""

import re

import pytest
from django.test import Client

from a2a import card_changes, endpoints
from a2a.choices import Authentication
from a2a.models import AgentCard, Skill
from nhi import actors
from nhi.actors import SYSTEM
from nhi.choices import Kind
from nhi.console import event_sentences
from nhi.identities import identities
from nhi.models import AuditEvent, Identity, User
from nhi.people import people
from tests.console.axe import violations
from tests.console.conftest import NARROW, SignedIn, Visit, hub, identity
from tests.console.reading import main_of, queries, text

pytestmark = [pytest.mark.capability("A2A-04", "A2A-09", "CON-05"), pytest.mark.django_db]
LIST = "/admin/a2a/agentcard/"
PARTS = ("card/", "card/preview/", "card/checks/", "card/endpoint/")
DIALOGS = ("card/edit/", "card/add-skill/", "card/endpoint/edit/", "card/discoverable/")


def of(part: str) -> str:
    return hub("writer", part)


@pytest.fixture
def writer(seeded: None) -> Identity:
    card_changes.put_skill(actor=SYSTEM, identity=identity("writer"), skill={"skill_id": "draft", "name": "Draft"})
    card_changes.put_skill(actor=SYSTEM, identity=identity("writer"), skill={"skill_id": "check", "name": "Check"})
    return identity("writer")


def skills(of: Identity) -> list[str]:
    return list(Skill.objects.filter(identity=of).order_by("position").values_list("skill_id", flat=True))


def test_every_page_opens_for_every_role_and_who_may_not_sees_no_control(writer: Identity, signed_in: SignedIn) -> None:
    identities.change(actor=SYSTEM, identity=writer, owner=User.objects.get(username="mara"), backup_owner=None)
    for name in ("admin", "mara", "tom", "olga", "ada"):
        client = signed_in(name)
        for path in (LIST, *map(of, PARTS)):
            page = main_of(text(client, path))
            assert ("/edit/" in page) == (name not in ("tom", "ada") and path in (of("card/"), of("card/endpoint/")))
        may_show = name in ("admin", "mara")
        assert ("card/discoverable/" in main_of(text(client, of("card/")))) == may_show
        for path in map(of, DIALOGS):
            allowed = may_show if "discoverable" in path else name not in ("tom", "ada")
            assert client.get(path).status_code == (200 if allowed else 403), (name, path)


@pytest.mark.both_databases
def test_many_agents_are_listed_in_as_many_queries_as_few(writer: Identity, mara: Client) -> None:
    few = queries(mara, LIST)
    owner = User.objects.get(username="mara")
    for number in range(60):
        identities.create(actor=SYSTEM, kind=Kind.AGENT, name=f"agent-{number}", owner=owner)
    assert queries(mara, LIST) <= few <= 15
    for part in PARTS:
        assert queries(mara, of(part)) <= 15, part


def test_the_list_is_of_agents_and_finds_them_by_skill(writer: Identity, mara: Client) -> None:
    agents = Identity.objects.filter(kind=Kind.AGENT).count()
    assert len(mara.get(LIST).context["rows"]) == min(agents, 50)
    assert [row["name"] for row in mara.get(f"{LIST}?q=Draft").context["rows"]] == ["writer"]
    identities.change(actor=SYSTEM, identity=writer, discoverable=True)
    assert [row["name"] for row in mara.get(f"{LIST}?card=True").context["rows"]] == ["writer"]


def test_only_agents_have_the_tab(seeded: None, mara: Client) -> None:
    tool = Identity.objects.filter(kind=Kind.TOOL).first()
    assert tool is not None
    base = f"/admin/nhi/identity/{tool.pk}/"
    assert "card/" not in main_of(text(mara, base))
    assert mara.get(f"{base}card/").status_code == 403
    assert mara.get(f"{base}card/edit/").status_code == 404


def test_skills_are_added_changed_moved_and_removed(writer: Identity, mara: Client) -> None:
    typed = {"skill_id": "edit", "name": "Edit", "tags": "text, prose", "examples": "One\nTwo", "public": "on"}
    assert mara.post(of("card/add-skill/"), typed).status_code == 302
    mara.post(of("card/skills/edit/move/"), {"way": "up"})
    mara.post(of("card/skills/draft/move/"), {"way": "up"})
    assert skills(writer) == ["draft", "edit", "check"]
    mara.post(of("card/skills/edit/edit/"), {**typed, "name": "Polish", "public": ""})
    kept = Skill.objects.get(skill_id="edit")
    assert (kept.name, kept.tags, kept.examples, kept.public) == ("Polish", ["text", "prose"], ["One", "Two"], False)
    assert mara.post(of("card/skills/draft/remove/"), {"reason": ""}).status_code == 422
    assert skills(writer) == ["draft", "edit", "check"]
    mara.post(of("card/skills/draft/remove/"), {"reason": "Not offered any more"})
    assert skills(writer) == ["edit", "check"]
    last = AuditEvent.objects.filter(event="card.skills_changed").latest("at", "id")
    assert (last.actor_name, last.reason) == ("mara", "Not offered any more")
    assert mara.get(of("card/skills/draft/edit/")).status_code == 404
    again = mara.post(of("card/add-skill/"), {**typed, "skill_id": "check"})
    assert (again.status_code, "Another skill has this id." in again.content.decode()) == (400, True)


def test_the_card_is_changed_and_shown_in_each_form(writer: Identity, mara: Client) -> None:
    typed = {
        "version": "2.1.0",
        "description": "Writes <b>prose</b>.",
        "form": "1.0",
        "default_input_modes": "text/plain",
    }
    assert mara.post(of("card/edit/"), typed).status_code == 302
    card = AgentCard.objects.get(pk=writer.pk)
    assert (card.version, card.form, card.default_input_modes) == ("2.1.0", "1.0", ["text/plain"])
    for form, has, has_not in (
        ("", "supportedInterfaces", "preferredTransport"),
        ("0.3", "preferredTransport", "supportedInterfaces"),
        ("merged", "preferredTransport", "nothing at all"),
    ):
        page = main_of(text(mara, f"{of('card/preview/')}?form={form}"))
        assert has in page
        assert has_not not in page
        assert "&lt;b&gt;prose" in page


def test_the_switch_says_who_reads_it_and_what(writer: Identity, mara: Client) -> None:
    page = main_of(text(mara, of("card/discoverable/")))
    assert "Anyone can read this" in page
    assert "Draft" in page
    assert Client().get("/agents/writer/.well-known/agent-card.json").status_code == 404
    mara.post(of("card/discoverable/"))
    assert Client().get("/agents/writer/.well-known/agent-card.json").status_code == 200
    assert "Anyone can read it" in main_of(text(mara, of("card/")))
    mara.post(of("card/discoverable/"))
    assert Client().get("/agents/writer/.well-known/agent-card.json").status_code == 404


def test_checks_say_what_a_strict_client_would(writer: Identity, mara: Client) -> None:
    card_changes.change(actor=SYSTEM, identity=writer, description="Schreibt für alle")
    page = main_of(text(mara, of("card/checks/")))
    assert "unsigned" in page
    assert "set PUBLIC_URL" in page


def filled(client: Client, path: str) -> dict[str, object]:
    """What a form holds when it is opened, as a browser would send it back."""
    form = client.get(path).context["form"]
    return {name: value for name, field in form.fields.items() if (value := form[name].value()) not in (None, False)}


def test_the_endpoint_is_changed_and_what_is_wrong_stands_beside_its_field(writer: Identity, mara: Client) -> None:
    path = of("card/endpoint/edit/")
    typed = {**filled(mara, path), "transports": ["grpc"], "tasks_per_hour": "60", "authentication": "api_key"}
    assert mara.post(path, {**typed, "streaming": ""}).status_code == 302
    kept = endpoints.of(writer)
    assert (kept.transports, kept.tasks_per_hour, kept.streaming) == (("grpc",), 60, False)
    assert kept.authentication == Authentication.API_KEY
    assert len(kept.methods) == 11
    wrong = mara.post(path, {**typed, "transports": [], "api_key_header": "Cookie", "content_types": "text"})
    assert wrong.status_code == 400
    errors = wrong.context["form"].errors
    assert set(errors) == {"transports", "api_key_header", "content_types"}
    page = main_of(text(mara, of("card/endpoint/")))
    assert "60 an hour" in page
    assert "X-API-Key" in page


def test_nothing_is_asked_for_on_a_development_server_only(writer: Identity, mara: Client, settings: object) -> None:
    path = of("card/endpoint/edit/")
    assert 'value="none"' not in main_of(text(mara, path))
    settings.DEBUG = True  # type: ignore[attr-defined]  # pytest-django's
    typed = {**filled(mara, path), "authentication": "none", "open_as": "planner"}
    assert mara.post(path, typed).status_code == 302
    assert "Open to everybody" in main_of(text(mara, of("card/endpoint/")))


def test_whoever_owns_an_agent_without_a_role_has_no_console_and_still_no_list(signed_in: SignedIn) -> None:
    """Signed in as they are: the same session opens both pages once they have a role."""
    pat = User.objects.create(username="pat")
    identities.create(actor=SYSTEM, kind=Kind.AGENT, name="pats-bot", owner=pat)
    client, places = signed_in("pat"), (LIST, hub("pats-bot", "card/"))
    for path in places:
        answer = client.get(path)
        assert (answer.status_code, answer.headers["Location"]) == (302, f"/admin/login/?next={path}")
    people.set_roles(actor=SYSTEM, user=pat, roles=["operator"])
    assert [client.get(path).status_code for path in places] == [200, 200]


@pytest.mark.browser
@pytest.mark.capability("CON-06")
@pytest.mark.parametrize(
    "options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light at 1280", "dark at 360"]
)
def test_find_an_agents_card_and_let_anyone_read_it(visit: Visit, options: dict[str, object]) -> None:
    mara = visit(**options)
    card_changes.put_skill(actor=SYSTEM, identity=identity("writer"), skill={"skill_id": "draft", "name": "Draft"})
    page, found = mara.page, []
    for path in (LIST, *map(of, PARTS), *map(of, DIALOGS), of("card/skills/draft/edit/")):
        mara.open(path)
        page.wait_for_load_state("load")
        found += violations(page)
        assert page.evaluate("document.documentElement.scrollWidth == innerWidth"), path
    assert not found, "\n".join(found)
    mara.open(LIST)
    mara.step(page.get_by_role("link", name="writer", exact=True))
    mara.step(page.get_by_role("link", name="Let anyone read it"))
    page.get_by_role("dialog").get_by_text("Anyone can read this").wait_for()
    mara.step(page.get_by_role("dialog").get_by_role("button", name="Let anyone read it"))
    page.get_by_role("status").get_by_text("Anyone can read the card of writer now.").wait_for()
    assert mara.steps <= 3
    assert not mara.complaints


def test_the_record_says_what_of_a_card_was_changed_and_when_strangers_may_read_it(mara: Client) -> None:
    writer = identity("writer")
    actor = actors.person(User.objects.get(username="mara"))
    card_changes.change(actor=actor, identity=writer, version="2.0", description="Writes.")
    for shown in (True, False):
        identities.change(actor=actor, identity=identity("writer"), discoverable=shown)
    page = re.sub("<[^>]+>", "", text(mara, hub("writer", "changes/")))
    for words in (
        "mara changed the card of writer: ", "mara let anyone read the card of writer",
        "mara hid the card of writer from strangers",
    ):  # fmt: skip
        assert words in page, words
    changed = AuditEvent.objects.filter(event="card.changed").latest("at")
    assert set(event_sentences.event_text(changed).partition(": ")[2].split(", ")) == {"version", "description"}
