"""Opening a session with an agent, and closing one."""

from datetime import timedelta
from typing import Any

from django.urls import path

from common.console import times
from common.console.confirmation_dialogs import ApiExample, Effect
from common.console.forms import ConsoleForm, ReasonField
from common.console.pages import link
from common.errors import Conflict, NotAllowed
from nhi.console.base import ActorDialog
from supervisor import access, admission, cancelling, sessions
from supervisor.access import Caller
from supervisor.admin.agents_hub import OfAgent
from supervisor.admin.sessions_page import OfSession
from supervisor.choices import Direction, ExecutionState, Mode, SessionState
from supervisor.models import SessionMessage


class CloseForm(ConsoleForm):
    reason = ReasonField("All said", "It does not answer", "Unexpected behaviour")


class Open(OfAgent, ActorDialog):
    lead = (
        "A process of the agent starts as soon as there is a place for it, and stays until the session is closed. "
        "What is said is kept, and read by everybody who may read runs here: security admins, operators, approvers and "
        "auditors."
    )

    def check(self) -> None:
        super().check()
        if not access.may_run(self.actor, self.agent):
            raise NotAllowed(f"You may not talk to {self.agent}.")

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is an agent
        return f"Open a session with {self.agent}"

    def context(self) -> dict[str, Any]:
        runs_tasks = f"{self.agent} runs tasks and holds no sessions." if self.agent.mode != Mode.INTERACTIVE else ""
        return {"title": self.button, "impossible": runs_tasks or self.unable}

    def effects(self) -> list[Effect]:
        agent = self.agent
        still, whole = (timedelta(seconds=limit) for limit in (agent.idle_timeout, agent.session_timeout))
        idle = Effect("idle", 1, f"It is closed after {times.lasts(still)} without a message.")
        return [
            Effect("identity", 1, f"It acts as {agent.identity.name}: what that may call, it may call."),
            *([] if agent.keep_alive else [idle]),
            Effect("total", 1, f"It is ended after {times.lasts(whole)} in any case."),
        ]

    def by_api(self) -> ApiExample:
        return self.starting()

    def act(self, form: ConsoleForm) -> str:
        try:
            session = sessions.open(caller=Caller(self.actor), agent=self.agent)
        except admission.NoRoom as error:
            raise Conflict(error.said) from error
        return link("supervisor_session_page", session.pk)


class Close(OfSession, ActorDialog):
    form_class = CloseForm
    danger = True

    def check(self) -> None:
        super().check()
        cancelling.require(self.actor, self.session.execution)

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a session
        return f"Close the {self.session}"

    def context(self) -> dict[str, Any]:
        return {"title": self.button, "impossible": self._impossible()}

    def _impossible(self) -> str:
        if self.session.state == SessionState.CLOSED:
            return "It is closed already."
        return "It is being closed already." if self.session.is_closing else ""

    def effects(self) -> list[Effect]:
        waiting = SessionMessage.objects.filter(session=self.session, direction=Direction.IN, taken_at=None).count()
        if self.session.execution.state == ExecutionState.QUEUED:
            return [Effect("waiting", 1, "It leaves the queue; the agent is never told what was said.")]
        said = "Its input ends; 2 s later its processes are asked to end, and 5 s after that they are ended."
        return [
            Effect("process", 1, said),
            Effect("messages", waiting, "The agent is given what was said before, as far as it reads it in time."),
        ]

    def by_api(self) -> ApiExample:
        return ApiExample(self.api("close"), {"reason": "…"})

    def act(self, form: ConsoleForm) -> str:
        sessions.close(actor=self.actor, session=self.session, reason=form.cleaned_data["reason"])
        return self.url("page")


URLS = [
    path("open/<uuid:pk>/", Open.as_view(), name="supervisor_session_open"),
    path("<uuid:pk>/close/", Close.as_view(), name="supervisor_session_close"),
]
