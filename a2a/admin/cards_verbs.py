"""Changing a card, its skills, its endpoint, and who may read it."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from a2a import card_changes, card_rights, cards, endpoint_changes
from a2a.admin.cards_forms import CardFields, EndpointFields, SkillFields
from a2a.models import AgentCard, Endpoint, Skill
from a2a.wire import methods
from common.console import navigation
from common.console.confirmation_dialogs import ApiExample
from common.console.forms import ConsoleForm, ReasonField
from common.errors import NotAllowed, NotFound
from nhi.access import rights
from nhi.admin.identities.hub import OfIdentity
from nhi.choices import Kind
from nhi.console import row_by_name_fields
from nhi.console.base import ActorDialog, ActorPage
from nhi.identities import identities


class OfAgent(OfIdentity):
    """A page of one agent, for who may change this of it."""

    right = card_rights.CARD

    def check(self) -> None:
        super().check()
        if self.identity.kind != Kind.AGENT:
            raise NotFound
        if self.actor.only_reads:
            raise NotAllowed(f"You may not change {self.identity.name}.")
        card_rights.require_to_change(self.actor, self.identity, self.right)

    def back(self) -> str:
        return self.url("card")

    def card_api(self) -> str:
        return f"/api/nhi/a2a/cards/{self.identity.pk}"


class EditCard(OfAgent, ActorDialog):
    form_class = CardFields
    wide = True
    button = "Save"

    def context(self) -> dict[str, Any]:
        return {"title": f"Edit the card of {self.identity.name}"}

    def initial(self) -> dict[str, Any]:
        return card_changes.facts(AgentCard.objects.filter(pk=self.identity.pk).first() or AgentCard())

    def by_api(self) -> ApiExample:
        return ApiExample(self.card_api(), {"version": "…", "description": "…"}, "PATCH")

    def act(self, form: ConsoleForm) -> str:
        given = {**form.cleaned_data, "description": " ".join(form.cleaned_data["description"].split())}
        card_changes.change(actor=self.actor, identity=self.identity, **given)
        messages.success(self.request, f"The card of {self.identity.name} is changed.")
        return self.back()


class AddSkill(OfAgent, ActorDialog):
    form_class = SkillFields
    wide = True
    button = "Add skill"

    def context(self) -> dict[str, Any]:
        return {"title": f"Add a skill of {self.identity.name}"}

    def by_api(self) -> ApiExample:
        return ApiExample(self.card_api(), {"skills": ["…", {"id": "…", "name": "…"}]}, "PATCH")

    def act(self, form: ConsoleForm) -> str:
        card_changes.put_skill(actor=self.actor, identity=self.identity, skill=form.cleaned_data)
        messages.success(self.request, f"{form.cleaned_data['name']} stands on the card.")
        return self.back()


class OfSkill(OfAgent):
    skill: Skill

    def check(self) -> None:
        super().check()
        found = Skill.objects.filter(identity=self.identity, skill_id=self.kwargs["skill_id"]).first()
        if found is None:
            raise NotFound
        self.skill = found


class EditSkill(OfSkill, AddSkill):
    button = "Save"

    def context(self) -> dict[str, Any]:
        return {"title": f"Edit the skill {self.skill.name} of {self.identity.name}"}

    def initial(self) -> dict[str, Any]:
        return card_changes.skill_facts(self.skill)

    def act(self, form: ConsoleForm) -> str:
        card_changes.put_skill(
            actor=self.actor, identity=self.identity, skill=form.cleaned_data, instead_of=self.skill.skill_id
        )
        messages.success(self.request, f"{form.cleaned_data['name']} is changed.")
        return self.back()


class RemoveForm(ConsoleForm):
    reason = ReasonField("Not offered any more", "Replaced by another", "Owner asked")


class RemoveSkill(OfSkill, ActorDialog):
    form_class = RemoveForm
    danger = True
    lead = "Callers are not told of it any more. Tasks of its kind go on as grants allow them."

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a skill
        return f"Remove {self.skill.name}"

    def context(self) -> dict[str, Any]:
        return {"title": f"Remove the skill {self.skill.name} of {self.identity.name}"}

    def by_api(self) -> ApiExample:
        return ApiExample(self.card_api(), {"skills": ["…"], "reason": "…"}, "PATCH")

    def act(self, form: ConsoleForm) -> str:
        reason = form.cleaned_data["reason"]
        card_changes.remove_skill(actor=self.actor, identity=self.identity, skill_id=self.skill.skill_id, reason=reason)
        messages.success(self.request, f"{self.skill.name} is off the card.")
        return self.back()


class MoveSkill(OfSkill, ActorPage):
    """Up or down by one, at once: pressing it again undoes it."""

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        return HttpResponseRedirect(self.back())

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        up = request.POST.get("way") == "up"
        card_changes.move_skill(actor=self.actor, identity=self.identity, skill_id=self.skill.skill_id, up=up)
        return HttpResponseRedirect(self.back())


class Discoverable(OfAgent, ActorDialog):
    """Whether strangers may read it. It is the identity's, so whoever changes that may."""

    template = "admin/a2a/cards/discoverable.html"

    def check(self) -> None:
        OfIdentity.check(self)
        if self.identity.kind != Kind.AGENT:
            raise NotFound
        if self.actor.only_reads:
            raise NotAllowed(f"You may not change {self.identity.name}.")
        rights.require_to_edit(self.actor, self.identity)

    @property
    def button(self) -> str:  # type: ignore[override]  # both ways have one address
        return f"Hide the card of {self.identity.name}" if self.identity.discoverable else "Let anyone read it"

    def context(self) -> dict[str, Any]:
        told = cards.describe(self.identity)
        shown = not self.identity.discoverable
        title = f"Let anyone read the card of {self.identity.name}" if shown else self.button
        return {"title": title, "shown": cards.facts_of(told) if shown else None, "url": told.url}

    def by_api(self) -> ApiExample:
        return ApiExample(self.api(), {"discoverable": not self.identity.discoverable}, "PATCH")

    def act(self, form: ConsoleForm) -> str:
        shown = not self.identity.discoverable
        identities.change(actor=self.actor, identity=self.identity, discoverable=shown)
        said = "Anyone can read" if shown else "Only callers read"
        messages.success(self.request, f"{said} the card of {self.identity.name} now.")
        return self.back()


class EditEndpoint(OfAgent, ActorDialog):
    right = card_rights.ENDPOINT
    form_class = EndpointFields
    wide = True
    button = "Save"
    lead = "It holds for the next request. Tasks that are open go on."

    def context(self) -> dict[str, Any]:
        return {"title": f"Edit the endpoint of {self.identity.name}"}

    def form(self, data: Any = None) -> ConsoleForm:
        return row_by_name_fields.bind_name_fields(super().form(data), self.actor)

    def initial(self) -> dict[str, Any]:
        row = Endpoint.objects.select_related("open_as").filter(pk=self.identity.pk).first()
        known = endpoint_changes.facts(row or Endpoint())
        return {**known, "supported_methods": known["supported_methods"] or list(methods.ALL)}

    def back(self) -> str:
        return self.url("card_endpoint")

    def by_api(self) -> ApiExample:
        body = {"transport_protocols": ["json_rpc"], "reason": "…"}
        return ApiExample(f"/api/nhi/a2a/endpoints/{self.identity.pk}", body, "PATCH")

    def act(self, form: Any) -> str:
        reason = form.cleaned_data["reason"]
        endpoint_changes.change(actor=self.actor, identity=self.identity, reason=reason, **form.given)
        messages.success(self.request, f"The endpoint of {self.identity.name} is changed.")
        return self.back()


SKILL = "card/skills/<str:skill_id>"
PAGES: tuple[tuple[str, Any, str], ...] = (
    ("card/edit", EditCard, "card_edit"),
    ("card/discoverable", Discoverable, "card_discoverable"),
    ("card/endpoint/edit", EditEndpoint, "card_endpoint_edit"),
    ("card/add-skill", AddSkill, "card_skill_add"),
    (f"{SKILL}/edit", EditSkill, "card_skill_edit"),
    (f"{SKILL}/remove", RemoveSkill, "card_skill_remove"),
    (f"{SKILL}/move", MoveSkill, "card_skill_move"),
)
for _path, _page, _name in PAGES:
    navigation.add_site_page(f"nhi/identity/<uuid:pk>/{_path}/", _page.as_view(), f"nhi_identity_{_name}")
