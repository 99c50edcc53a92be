"""Sending a task to an agent from the console: as the person who is signed in, by the verb that all doors call."""

from typing import Any
from uuid import uuid4

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.functional import cached_property

from a2a import access, callback_urls, sending
from a2a.admin import runtimes
from a2a.sending import Wish
from common import http_statuses, strict_json
from common.console.forms import ConsoleForm, MomentField
from common.console.pages import Control, Crumb, link
from common.errors import GatehouseError, NotAllowed, NotFound, PayloadTooLarge, RateLimited
from common.strict_json import StrictJsonError
from nhi.actors import Actor
from nhi.console import row_by_name_fields
from nhi.console.form_page import FormPage
from nhi.decisions.reasons import REASONS
from nhi.models import Identity
from supervisor.access import Caller

EXAMPLE = '{"input": "Hello."}'
PLAIN = {"autocomplete": "off", "spellcheck": "false"}


class SendForm(ConsoleForm):
    aliases = {"target_agent_id": "to"}

    to = row_by_name_fields.RowByNameField("agent", label="Agent")
    task_type = forms.CharField(
        label="Type", required=False, max_length=sending.LONGEST_TYPE, widget=forms.TextInput(attrs=PLAIN),
        help_text="What kind of task it is, like summarise. Agents may tell by it what to do.",
    )  # fmt: skip
    input = forms.CharField(
        label="Input", widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
        help_text=f"A JSON object, like {EXAMPLE}. A program or a model is given the text under input, any other agent "
        "the object as it is; what looks like a secret is masked for everybody else.",
    )  # fmt: skip
    deadline = MomentField(required=False, help_text="It fails when it is not done by then. Empty: none.")
    callback_url = forms.CharField(
        label="Callback", required=False, max_length=callback_urls.LONGEST, widget=forms.TextInput(attrs=PLAIN),
        help_text="A URL that is told when it has ended, whatever becomes of it. Empty: nobody is told.",
    )  # fmt: skip
    #: Pressing the button twice sends one.
    key = forms.CharField(widget=forms.HiddenInput)

    def clean_input(self) -> dict[str, Any]:
        try:
            read = strict_json.loads(self.cleaned_data["input"].encode(errors="replace"))
        except StrictJsonError as problem:
            raise forms.ValidationError(str(problem).replace("The body", "This", 1)) from None
        if not isinstance(read, dict):
            raise forms.ValidationError(f"Write a JSON object, like {EXAMPLE}.")
        return read

    @property
    def wish(self) -> Wish:
        data = self.cleaned_data
        return Wish(
            sending.of_input(data["input"]), task_type=data["task_type"], deadline=data["deadline"],
            callback_url=data["callback_url"] or None,
        )  # fmt: skip


class Send(FormPage[SendForm]):
    template = "admin/a2a/tasks/send.html"
    title = "Send a task"

    def check(self) -> None:
        if not access.may_send(self.actor):
            raise NotAllowed("You may not send tasks.", details={"needs": access.SEND})

    def context(self) -> dict[str, Any]:
        back = link("nhi_identity_tasks", self._named.pk) if self._named else link("a2a_task_changelist")
        return {
            "crumb": Crumb("Tasks", link("a2a_task_changelist")),
            "back": back,
            "buttons": [("send", "Send task")],
            "lead": f"It is sent in your own name, {self.actor.name}, and what you may do decides.",
            "takes": self._takes(),
            "body": {"target_agent_id": "…", "task_type": "summarise", "input": {"input": "Hello."}},
        }

    @cached_property
    def _named(self) -> Identity | None:
        """Whose page it was opened from."""
        name = row_by_name_fields.initial_name("agent", self.actor, self.request.GET.get("to", ""))
        return row_by_name_fields.find_row("agent", self.actor, name) if name else None

    def _takes(self) -> str:
        return runtimes.goes_to(self._named) if self._named is not None else ""

    def fitting(self, data: Any = None) -> SendForm:
        named = self._named.name if self._named else ""
        return SendForm(data, initial={"to": named, "input": EXAMPLE, "key": str(uuid4())})

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        try:
            return super().post(request, **kwargs)
        except (NotAllowed, NotFound, RateLimited, PayloadTooLarge) as error:
            form = self._form(request.POST)
            form.is_valid()
            form.add_error(None, self._refusal(error, form.cleaned_data.get("to")))
            return self.drawn(form, status=http_statuses.status_for(error))

    def _refusal(self, error: GatehouseError, target: Identity | None) -> str:
        """Why, and what to do about it."""
        if isinstance(error, RateLimited):
            return f"{error.message} Send it again in {error.retry_after} s."
        if target is None or isinstance(error, NotFound | PayloadTooLarge):
            return error.message
        reason = str(error.details.get("reason", ""))
        if reason == "no_grant":
            return f"{error.message} Its owner, {target.owner}, or a security admin can let you use it."
        known = REASONS.get(reason)
        remedy = known.remedy.format(caller=self.actor.name, target=target.name) if known else ""
        return f"{error.message} {remedy}".strip()

    def save(self, form: SendForm) -> str:
        data, wish, caller = form.cleaned_data, form.wish, Caller(self.actor)
        if wish.callback_url is not None:
            callback_urls.look_up(wish.callback_url)
        # What takes long in a large one is done before the transaction around the key.
        _ = wish.shown
        said = {name: str(data[name]) for name in ("task_type", "deadline", "callback_url")}
        body = {**said, "to": str(data["to"].pk), "input": data["input"]}
        task = sending.once(
            caller=caller, key=data["key"], body=body,
            sending=lambda: sending.send(caller=caller, target=data["to"], wish=wish),
        )  # fmt: skip
        messages.success(self.request, f"{data['to'].name} has been sent {task.short_id}.")
        return link("a2a_task_hub", task.pk)


def control(actor: Actor, target: Identity | None = None) -> list[Control]:
    """For who may: the button of a list, or of an agent's page."""
    if not access.may_send(actor, target):
        return []
    url = link("a2a_task_send")
    return [Control("Send a task", f"{url}?to={target.pk}" if target else url, "send", dialog=False)]


URLS = [path("send/", Send.as_view(), name="a2a_task_send")]
