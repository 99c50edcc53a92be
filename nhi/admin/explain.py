"""Why may or may not A call T, now or at a time to come: every check in order, and what would make it pass."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse

from common.console import badges, navigation, times
from common.console.badges import Badge
from common.console.forms import ConsoleForm, JSONTextField, MomentField
from common.console.pages import Control, link
from common.errors import InvalidInput, NotAllowed
from nhi.authorization import explain
from nhi.authorization.explain import Explanation
from nhi.choices import Kind
from nhi.console import row_by_name_fields
from nhi.console.base import ActorPage
from nhi.decisions.types import AccessMatch, CheckResult

#: What a check asks, by its name; one that a later room adds goes by its own until it has words here.
ASKS = {
    "credential": "Credential live, network allowed",
    "caller": "Caller is active and has not expired",
    "target_known": "Target is registered",
    "access": "A grant or a role allows it",
    "scope": "The token's scope covers it",
    "target": "Target is active and has not expired",
    "chain": "Everybody on whose behalf it is asked may, too",
    "arguments": "Arguments fit the grant",
    "action": "Action fits the grant",
    "approval": "Needs no approval",
    "budget": "Within the limit of calls",
}
#: The two fields that make a question, by what they name.
BOTH = {"caller": "caller", "target": "identity"}
WOULD = {"pass": "Would pass", "fail": "Would fail", "skip": "Not asked"}


class AskForm(ConsoleForm):
    """The part of the question that stands in the address."""

    caller = row_by_name_fields.RowByNameField("caller", label="Caller")
    target = row_by_name_fields.RowByNameField(
        "identity", label="May call", help_text="A tool, an agent or a service account."
    )
    at = MomentField(label="At", required=False, help_text="Empty: now. Or a time to come.")
    action = forms.CharField(
        label="Action",
        required=False,
        max_length=200,
        help_text="Between identities: the task type.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    task = forms.UUIDField(
        required=False,
        label="Within the task",
        help_text="Its id: as if the caller, who works on it, asked within it.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )


class ArgumentsForm(ConsoleForm):
    """The part that is never in an address, since addresses are logged."""

    aliases = {"parameters": "arguments"}

    arguments = JSONTextField(
        help_text="JSON. They are checked and forgotten: neither the address nor the record has them.",
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "autocomplete": "off"}),
    )


@dataclass(frozen=True)
class Line:
    """One check as the page draws it."""

    check: CheckResult
    decides: bool
    #: It stands behind the one that decides: what it would have said.
    behind: bool

    @property
    def asks(self) -> str:
        return ASKS.get(self.check.name, self.check.name.replace("_", " ").capitalize())

    @property
    def badge(self) -> Badge:
        found = badges.find("answer", self.check.outcome)
        return found.saying(WOULD[self.check.outcome]) if self.behind else found


@dataclass(frozen=True)
class Covering:
    """A grant or a role that covers the target, with its page."""

    match: AccessMatch
    url: str

    @property
    def words(self) -> str:
        return f"{self.match.kind} {self.match.name}"

    @property
    def badge(self) -> Badge:
        state = "revoked" if self.match.revoked else "expired" if self.match.expired else "live"
        return badges.find("nhi.GrantState", state)


class Explain(ActorPage):
    """A GET asks and changes nothing; arguments come by POST to the same address and are kept nowhere."""

    template = "nhi/explain.html"
    title = "Explain"

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        return self._answered(request, ArgumentsForm(), None)

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        if self.actor.only_reads:
            raise NotAllowed("You read everything here and change nothing.")
        given = ArgumentsForm(request.POST)
        if not given.is_valid():
            return self._answered(request, given, None, status=422)
        return self._answered(request, given, given.cleaned_data["arguments"])

    def _answered(
        self, request: HttpRequest, given: ArgumentsForm, arguments: Any, *, status: int = 200
    ) -> HttpResponse:
        asked = self._asked(request)
        if not asked.is_bound:
            return self.page(form=asked, given=None)
        if not asked.is_valid():
            # A name that nothing has and one that is not theirs to see are answered alike.
            unknown = any(error.code == "unknown" for error in _errors(asked))
            return self.page(form=asked, given=None, status=404 if unknown else 400)
        # A link holds ids; people read names.
        read = {name: row_by_name_fields.full_name(asked.cleaned_data[name]) for name in BOTH}
        asked.data = {**request.GET.dict(), **read}
        try:
            told = self._explain(asked, arguments)
        except InvalidInput as error:
            asked.refuse(error)
            return self.page(form=asked, given=None, status=400)
        return self.page(form=asked, given=given, status=status, **self._drawn(asked, told))

    def _asked(self, request: HttpRequest) -> AskForm:
        """Bound once the form was sent, or the address names both; a link with one of them begins the form with it."""
        query = request.GET
        if all(name in query for name in BOTH):
            form = AskForm(query)
        else:
            begun = {name: query.get(name, "").strip() for name in BOTH}
            known = {
                name: row_by_name_fields.initial_name(BOTH[name], self.actor, text) or text
                for name, text in begun.items()
            }
            form = AskForm(initial={**query.dict(), **known})
        row_by_name_fields.bind_name_fields(form, self.actor)
        return form

    def _explain(self, asked: AskForm, arguments: Any) -> Explanation:
        given = asked.cleaned_data
        return explain.explain(
            actor=self.actor,
            caller_id=given["caller"].pk,
            target_id=given["target"].pk,
            parameters=arguments,
            action=given["action"] or None,
            at=given["at"],
            task_id=given["task"],
        )

    def _drawn(self, asked: AskForm, told: Explanation) -> dict[str, Any]:
        caller, target, at = (asked.cleaned_data[name] for name in ("caller", "target", "at"))
        decision = told.decision
        decider = decision.match
        return {
            "title": f"{caller} → {target}",
            "caller": caller,
            "target": target,
            "at": at,
            "decision": decision,
            "verdict": badges.of(decision.verdict),
            "lines": _lines(told),
            "decided_by": _covering(decider, target) if decider is not None and decision.allowed else None,
            "would_pass": told.would_pass,
            "warnings": told.warnings,
            "next_steps": self._next_steps(told, caller, target),
            "also": [_covering(match, target) for match in told.also],
            "address": self.request.build_absolute_uri(f"{self.request.path}?{_address(asked)}"),
            "takes_arguments": not self.actor.only_reads,
            "api": {"caller_id": str(caller.pk), "target_id": str(target.pk)},
        }

    def _next_steps(self, told: Explanation, caller: Any, target: Any) -> list[Control]:
        """Where to go to make it pass, as far as this person may."""
        match, failed = told.decision.match, {check.name for check in told.checks if check.outcome == "fail"}
        steps = []
        if "caller" in failed:
            steps.append(Control(f"Open {caller}", link("nhi_identity_hub", caller.pk), dialog=False))
        if "target" in failed:
            steps.append(Control(f"Open {target}", link("nhi_identity_hub", target.pk), dialog=False))
        if "access" in failed and not self.actor.only_reads:
            steps += self._giving(match, caller, target)
        if match is not None and failed & {"arguments", "action", "approval", "budget"}:
            covering = _covering(match, target)
            steps.append(Control(f"Open the {match.kind}", covering.url, dialog=False))
            if match.kind == "grant" and match.live and self._may_replace(target):
                steps.append(Control("Change its limits", f"{covering.url}limits/", "tune"))
        return steps

    def _may_replace(self, target: Any) -> bool:
        model = "toolpermission" if target.kind == Kind.TOOL else "nhipermission"
        rights = (f"nhi.add_{model}", f"nhi.revoke_{model}")
        return not self.actor.only_reads and all(self.actor.may(right) for right in rights)

    def _giving(self, match: AccessMatch | None, caller: Any, target: Any) -> list[Control]:
        tool = target.kind == Kind.TOOL
        model, ends = ("toolpermission", ("agent", "tool")) if tool else ("nhipermission", ("source", "target"))
        if not self.actor.may(f"nhi.add_{model}") or (tool and caller.kind != Kind.AGENT):
            return []
        query = urlencode({ends[0]: caller.pk, ends[1]: target.pk})
        give = Control("Give access", f"{link(f'nhi_{model}_give')}?{query}", "add")
        if match is not None and match.kind == "grant" and match.expired:
            return [Control("Open the grant that ended", _covering(match, target).url, dialog=False), give]
        return [give]


def _errors(form: ConsoleForm) -> list[Any]:
    return [error for errors in form.errors.as_data().values() for error in errors]


def _lines(told: Explanation) -> list[Line]:
    """Every check in its order. What lets a call pass is the grant or role, so that check decides an allow."""
    decision, lines, behind = told.decision, [], False
    decider = decision.failed_check.name if decision.failed_check is not None else "access"
    for check in decision.checks:
        lines.append(Line(check, check.name == decider, behind and not decision.allowed))
        behind = behind or check.name == decider
    return lines


def _covering(match: AccessMatch, target: Any) -> Covering:
    if match.kind == "role":
        return Covering(match, link("nhi_roleassignment_page", match.id))
    model = "toolpermission" if target.kind == Kind.TOOL else "nhipermission"
    return Covering(match, link(f"nhi_{model}_page", match.id))


def _address(asked: AskForm) -> str:
    """Ids and UTC, so that the link asks the same from every zone and after a change of names."""
    given = asked.cleaned_data
    query = {"caller": given["caller"].pk, "target": given["target"].pk}
    if given["at"]:
        query["at"] = times.stamp(given["at"])
    if given["action"]:
        query["action"] = given["action"]
    if given["task"]:
        query["task"] = given["task"]
    return urlencode(query)


navigation.add_site_page("explain/", Explain.as_view(), "explain")
