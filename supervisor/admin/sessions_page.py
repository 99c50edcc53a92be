"""One session as a conversation: what was said, a box to say more, and how long it lasts yet."""

from typing import Any

from django import forms
from django.urls import path

from common.console.confirmation_dialogs import ApiExample
from common.console.forms import ConsoleForm
from common.console.pages import Control, Crumb, link
from common.errors import NotAllowed, NotFound
from nhi.console.base import ActorDialog, ActorMixin, ActorPage
from supervisor import access, cancelling, sessions
from supervisor.access import Caller
from supervisor.admin import sessions_cells
from supervisor.choices import SessionState
from supervisor.models import Session, SessionMessage

#: Messages of a page, and characters of each.
SHOWN, LONGEST_SHOWN = 200, 20_000


class OfSession(ActorMixin):
    """A page or dialog about one session that the person may see."""

    kwargs: dict[str, Any]
    session: Session

    def check(self) -> None:
        super().check()
        seen = Session.objects.visible_to(self.actor).select_related("agent__identity__owner", "execution")
        found = seen.filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        self.session = found

    def url(self, page: str) -> str:
        return link(f"supervisor_session_{page}", self.session.pk)

    def api(self, verb: str = "") -> str:
        path = f"/api/nhi/supervisor/sessions/{self.session.pk}"
        return f"{path}/{verb}" if verb else path

    def back(self) -> str:
        return self.url("page")

    @property
    def silenced(self) -> str:
        """Why this person can say nothing here now; empty when they can."""
        if self.session.state == SessionState.CLOSED:
            return "It is closed. What was said stays on record."
        if self.session.is_closing:
            return "It is being closed."
        speaks = sessions.may_speak(self.actor, self.session) and access.may_run(self.actor, self.session.agent)
        return "" if speaks else f"Only {self.session.opened_by_name} and whoever handles the agent speak here."


class Transcript(OfSession, ActorPage):
    template = "admin/supervisor/sessions/page.html"

    def context(self) -> dict[str, Any]:
        session, shown = self.session, self._shown()
        return {
            "title": f"Session with {session.agent}",
            "session": session,
            "standing": sessions_cells.standing(session),
            "timers": sessions_cells.timers(session),
            "said": shown,
            "longest": LONGEST_SHOWN,
            "earlier": shown[0].seq if shown and shown[0].seq > 1 else 0,
            "is_end": not self._before(),
            "silenced": self.silenced,
            "form": SayForm(),
            "say_url": self.url("say"),
            # Each answer to an auditor is on record, so theirs stays as it was drawn.
            "news_url": "" if self.actor.only_reads or self._before() else self.url("news"),
            "crumb": Crumb("Sessions", link("supervisor_session_changelist")),
            "controls": self._controls(),
            "api": self.api("messages"),
        }

    def _before(self) -> int:
        """The message that the page ends before; 0 for one that ends with the last there is."""
        return _number(self.request.GET.get("before", ""))

    def _shown(self) -> list[SessionMessage]:
        rows = sessions.messages(self.session)
        before = self._before()
        return list(reversed((rows.filter(seq__lt=before) if before else rows).order_by("-seq")[:SHOWN]))

    def _controls(self) -> list[Control]:
        if self.session.state == SessionState.CLOSED or not cancelling.may_cancel(self.actor, self.session.execution):
            return []
        blocked = "It is being closed." if self.session.is_closing else ""
        return [Control("Close", self.url("close"), "stop_circle", danger=True, blocked=blocked)]


class News(OfSession, ActorPage):
    """What was said behind a number, and how the session stands."""

    template = "admin/supervisor/sessions/news.html"

    def context(self) -> dict[str, Any]:
        after = _number(self.request.GET.get("after", ""))
        return {
            "title": "New messages",
            "crumb": Crumb(f"Session with {self.session.agent}", self.url("page")),
            "session": self.session,
            "standing": sessions_cells.standing(self.session),
            "timers": sessions_cells.timers(self.session),
            "said": sessions.messages(self.session, after=after)[:SHOWN],
            "longest": LONGEST_SHOWN,
        }


class SayForm(ConsoleForm):
    text = forms.CharField(
        label="Message",
        strip=False,
        help_text="At most 64 KiB, given to the agent as one line. Ctrl+Enter sends it.",
        widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off"}),
    )


class Say(OfSession, ActorDialog):
    form_class = SayForm
    button = "Send"

    def check(self) -> None:
        super().check()
        if not sessions.may_speak(self.actor, self.session):
            raise NotAllowed(self.silenced or f"You may not speak in this {self.session}.")

    def context(self) -> dict[str, Any]:
        return {"title": f"Say something to {self.session.agent}", "impossible": self.silenced}

    def by_api(self) -> ApiExample:
        return ApiExample(self.api("messages"), {"text": "…"})

    def act(self, form: ConsoleForm) -> str:
        # A form's line ends are those of HTTP.
        text = form.cleaned_data["text"].replace("\r\n", "\n")
        sessions.say(caller=Caller(self.actor), session=self.session, text=text)
        return self.url("page")


def _number(said: str) -> int:
    return int(said) if said.isdecimal() and len(said) < 10 else 0


URLS = [
    path("<uuid:pk>/", Transcript.as_view(), name="supervisor_session_page"),
    path("<uuid:pk>/news/", News.as_view(), name="supervisor_session_news"),
    path("<uuid:pk>/say/", Say.as_view(), name="supervisor_session_say"),
]
