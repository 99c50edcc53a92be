"""What does an agent's tasks: told on the tab of its tasks, and chosen in a dialog."""

from typing import Any

from django import forms
from django.contrib import messages

from a2a import carriers, runtimes
from a2a.choices import Binding, RuntimeKind, WireVersion
from a2a.models import Runtime, Task
from a2a.remote import testing
from a2a.runtimes import Behind
from common.console import navigation
from common.console.confirmation_dialogs import ApiExample
from common.console.forms import Chips, ConsoleForm
from common.console.pages import Control, link
from common.errors import NotAllowed, NotFound
from nhi.actors import Actor
from nhi.admin.identities.hub import OfIdentity
from nhi.choices import Kind
from nhi.console.base import ActorDialog
from nhi.models import Identity
from supervisor.admin import agents_hub
from supervisor.choices import Kind as RunsKind
from supervisor.models import Agent

OPEN, RUNS = "open", "runs:"
REMOTE_ONLY = f"to={RuntimeKind.REMOTE}"
PLAIN = {"autocomplete": "off", "spellcheck": "false"}


def panel(actor: Actor, identity: Identity) -> dict[str, Any]:
    """For the tab: where its next task goes, and the control that changes that."""
    behind = runtimes.of(identity)
    may = actor.may(runtimes.RIGHT) and not actor.only_reads
    change = Control("Change", link("a2a_runtime_change", identity.pk), "edit")
    test = Control("Test now", link("a2a_runtime_test", identity.pk), "network_check", posts=True)
    return {
        "words": words(behind),
        "runs": behind.agent,
        "derived": behind.chosen is None,
        "chosen": behind.chosen,
        "test": test if may and behind.kind == RuntimeKind.REMOTE else None,
        "control": change if may else None,
    }


def words(behind: Behind) -> str:
    agent, chosen = behind.agent, behind.chosen
    if agent is not None:
        return f"{agent} ({RunsKind(agent.kind).label.lower()})"
    if chosen is not None and behind.kind == RuntimeKind.REMOTE:
        return f"the A2A server at {chosen.url}"
    return "its inbox, for its own workers"


def goes_to(identity: Identity) -> str:
    """For pages of what runs as it: changing that may move its tasks."""
    if identity.kind != Kind.AGENT:
        return ""
    behind = runtimes.of(identity)
    by = f", as {behind.chosen.created_by_name} chose" if behind.chosen is not None else ""
    return f"Tasks of {identity.name} go to {words(behind)}{by}.{_left_in_inbox(identity)}"


def _left_in_inbox(identity: Identity) -> str:
    """Another choice is for new tasks."""
    count = Task.objects.open().filter(agent=identity, runtime_kind=RuntimeKind.INBOX).count()
    return f" {count} open {'task stays' if count == 1 else 'tasks stay'} in its inbox." if count else ""


def will_go_to(agent: Agent, on: bool) -> str:
    """Said before it is switched; nothing where tasks stay where they are."""
    now, then = runtimes.of(agent.identity), runtimes.foreseen(agent, on=on)
    if agent.identity.kind != Kind.AGENT or (now.kind, now.agent) == (then.kind, then.agent):
        return ""
    return f"New tasks of {agent.identity.name} go to {words(then)}.{_left_in_inbox(agent.identity) if on else ''}"


class ChoiceForm(ConsoleForm):
    aliases = {"kind": "to", "agent_id": "to"}

    to = forms.ChoiceField(
        label="Tasks go to", widget=Chips,
        help_text="Whatever runs as it: the first program or model that runs tasks and is on, else its inbox.",
    )  # fmt: skip
    url = forms.CharField(
        label="Address", required=False, max_length=2000, widget=forms.TextInput(attrs=PLAIN),
        help_text="Of the server's card, or the place that its card is below.",
    )  # fmt: skip
    wire_version = forms.ChoiceField(label="Version of the protocol", choices=WireVersion.choices, required=False)
    binding = forms.ChoiceField(label="Binding", choices=Binding.choices, required=False)
    header = forms.CharField(
        label="Header of the credential", required=False, max_length=100, widget=forms.TextInput(attrs=PLAIN),
        help_text="Empty: Authorization.",
    )  # fmt: skip
    scheme = forms.CharField(
        label="Word before the credential", required=False, max_length=40, widget=forms.TextInput(attrs=PLAIN),
        help_text="Like Bearer. Empty: the credential goes alone.",
    )  # fmt: skip
    credential = forms.CharField(
        label="Credential", required=False, strip=False, max_length=8000,
        help_text="Kept encrypted and never shown again. Empty: stays as it is.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )  # fmt: skip
    forget = forms.BooleanField(label="Take the credential away: the server wants none", required=False)
    timeout = forms.IntegerField(
        label="Timeout", required=False, min_value=1, help_text="Seconds that an answer may take."
    )

    def __init__(self, *args: Any, identity: Identity, behind: Behind, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agents = {f"{RUNS}{agent.pk}": agent for agent in runtimes.choices(identity)}
        self.fields["to"].choices = _places(self.agents)  # type: ignore[attr-defined]  # a field of choices has them
        remote = [name for name in self.fields if name != "to"]
        for name in remote:
            self.fields[name].shown_for = REMOTE_ONLY  # type: ignore[attr-defined]  # read by the field's template
        if RuntimeKind.REMOTE not in carriers.kinds():
            for name in remote:
                del self.fields[name]
        elif behind.chosen is None or not behind.chosen.sealed_credential:
            del self.fields["forget"]

    @property
    def given(self) -> dict[str, Any]:
        """For the verb."""
        data = self.cleaned_data
        if (agent := self.agents.get(data["to"])) is not None:
            return {"kind": runtimes.KINDS[RunsKind(agent.kind)], "agent": agent}
        if data["to"] != RuntimeKind.REMOTE:
            return {"kind": data["to"]}
        described = {name: data[name] for name in runtimes.REMOTE if data.get(name)}
        kept = None if not data.get("forget") else ""
        return {"kind": RuntimeKind.REMOTE, **described, "credential": data.get("credential") or kept}


def _places(agents: dict[str, Any]) -> list[tuple[str, str]]:
    remote = [(RuntimeKind.REMOTE.value, "Another A2A server")] if RuntimeKind.REMOTE in carriers.kinds() else []
    here = [(key, f"{agent} ({RunsKind(agent.kind).label.lower()})") for key, agent in agents.items()]
    return [(OPEN, "Whatever runs as it"), (RuntimeKind.INBOX.value, "Its inbox"), *here, *remote]


class Change(OfIdentity, ActorDialog):
    form_class = ChoiceForm
    lead = "For tasks that are sent from now on; those that were sent before go on as they were."

    def check(self) -> None:
        super().check()
        if self.identity.kind != Kind.AGENT:
            raise NotFound
        self.actor.require(runtimes.RIGHT, runtimes.DOING)

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is an identity
        return f"Choose for {self.identity.name}"

    def context(self) -> dict[str, Any]:
        return {"title": f"What does the tasks of {self.identity.name}"}

    def form(self, data: Any = None) -> ConsoleForm:
        behind = runtimes.of(self.identity)
        return ChoiceForm(data, initial=initial(behind), identity=self.identity, behind=behind)

    def by_api(self) -> ApiExample:
        return ApiExample(f"/api/nhi/a2a/runtimes/{self.identity.pk}", {"kind": "inbox"}, method="PUT")

    def back(self) -> str:
        return self.url("tasks")

    def act(self, form: ConsoleForm) -> str:
        assert isinstance(form, ChoiceForm)  # it was made above
        if form.cleaned_data["to"] == OPEN:
            behind = runtimes.leave_open(actor=self.actor, identity=self.identity)
        else:
            behind = runtimes.choose(actor=self.actor, identity=self.identity, **form.given)
        messages.success(self.request, f"Tasks of {self.identity.name} go to {words(behind)}.")
        return self.back()


class Test(OfIdentity, ActorDialog):
    lead = "Reads its card and asks it for a task that it cannot know. Nothing is sent that it would work on."

    def check(self) -> None:
        super().check()
        if self.identity.kind != Kind.AGENT:
            raise NotFound
        if self.actor.only_reads:
            raise NotAllowed(f"You may not {testing.DOING}.")
        self.actor.require(runtimes.RIGHT, testing.DOING)

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is an identity
        return f"Test the A2A server behind {self.identity.name}"

    def context(self) -> dict[str, Any]:
        return {"title": self.button, "impossible": testing.impossible(self.identity)}

    def by_api(self) -> ApiExample:
        return ApiExample(f"/api/nhi/a2a/runtimes/{self.identity.pk}/test")

    def back(self) -> str:
        return self.url("tasks")

    def act(self, form: ConsoleForm) -> str:
        report = testing.test(actor=self.actor, identity=self.identity)
        named = f"“{report.agent_name}”" if report.agent_name else f"The A2A server behind {self.identity.name}"
        sentence = f"{named} was tested. {report.said} {report.advice}".strip()
        (messages.success if report.works else messages.warning)(self.request, sentence)
        return self.back()


def initial(behind: Behind) -> dict[str, Any]:
    chosen: Runtime | None = behind.chosen
    if chosen is None:
        return {"to": OPEN}
    to = f"{RUNS}{chosen.agent_id}" if chosen.agent_id else chosen.kind
    return {"to": to, **{name: getattr(chosen, name) for name in runtimes.REMOTE}}


agents_hub.add_consequence(goes_to)
agents_hub.add_foresight(will_go_to)
navigation.add_site_page("nhi/identity/<uuid:pk>/runtime/", Change.as_view(), "a2a_runtime_change")
navigation.add_site_page("nhi/identity/<uuid:pk>/runtime/test/", Test.as_view(), "a2a_runtime_test")
