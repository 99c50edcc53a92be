"""Whether a remote agent could be sent a task: its card is read, and it is asked for a task that nobody has.

Nothing is sent that it could work on.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from a2a.choices import Binding, Shown, Tested, TestStep
from a2a.remote import asking, finding, judging, troubles
from a2a.remote.client import Client
from a2a.remote.finding import Card
from a2a.remote.target import Interface, Target
from a2a.remote.troubles import Code, Trouble
from a2a.wire.faults import Kind
from common.egress.tracked_body import SentFlag
from common.ids import uuid7
from common.redaction.redactor import Redactor
from nhi.audit import sanitization

log = logging.getLogger(__name__)

LONGEST_NAME = 200
NOT_KNOWN = "Whether it works is not known."
ASKED = frozenset({Tested.WORKS, Tested.UNPROVEN})
TAKEN = {
    Shown.ACCEPTED: "It takes our credential.",
    Shown.NONE: "It was asked without a credential, since none is set.",
    Shown.WITHHELD: "It was asked without our credential, which goes only to the place that was set.",
}


@dataclass(frozen=True)
class Step:
    step: TestStep
    passed: bool
    said: str


@dataclass(frozen=True)
class Report:
    outcome: Tested
    #: What was found, and what to do about it: sentences for people. Nothing to do: empty.
    said: str
    advice: str
    credential: Shown
    #: From its card; empty where it has none.
    agent_name: str
    interface: Interface | None
    #: Where that is, without what may be a secret in it.
    url: str
    steps: tuple[Step, ...]

    @property
    def works(self) -> bool:
        return self.outcome == Tested.WORKS


@dataclass
class Probe:
    target: Target
    redactor: Redactor
    interface: Interface | None = None
    agent_name: str = ""
    steps: list[Step] = field(default_factory=list)

    async def run(self, seconds: float) -> Report:
        """Never longer than that, and never an exception: what went wrong is what was found."""
        try:
            async with asyncio.timeout(seconds):
                await self._look()
                trouble = await self._ask()
        except Trouble as found:
            trouble = found
        except TimeoutError:
            trouble = troubles.late(seconds, SentFlag())
        except Exception as error:
            # By its kind alone: the words of another machine may hold what it was shown.
            log.error("a remote agent could not be tested", extra={"error": type(error).__name__})
            trouble = Trouble(Code.ERROR, f"Something went wrong here: {type(error).__name__}.")
        return self.found(trouble)

    async def _look(self) -> None:
        client = self._client()
        card = await finding.card(client, self.target)
        self.agent_name = self._name(card)
        if card is not None:
            named = f" of “{self.agent_name}”" if self.agent_name else ""
            self._passed(TestStep.CARD, f"There is a card{named} at {finding.shown(card.place)}.")
        self.interface = finding.interface(self.target, card)
        if card is None:
            self._passed(
                TestStep.CARD,
                "No card can be read; none is needed, since version and binding are named.",
            )
        self._passed(TestStep.INTERFACE, f"It is spoken to {self._way}.")

    async def _ask(self) -> Trouble | None:
        """What it said to that, which no server can do well; None for one that did."""
        assert self.interface is not None  # it was looked for first
        try:
            await self._client().ask(self.interface, asking.of_task(self.interface, "get", str(uuid4())))
        except Trouble as trouble:
            return trouble
        return None

    def _client(self) -> Client:
        return Client(self.target, request_id=str(uuid7()))

    def _name(self, card: Card | None) -> str:
        said: Any = card.says.get("name") if card is not None else None
        return self.redactor.redact_text(sanitization.single_line(said, LONGEST_NAME)) if isinstance(said, str) else ""

    def _passed(self, step: TestStep, said: str) -> None:
        self.steps.append(Step(step, True, self.redactor.redact_text(said)))

    @property
    def _way(self) -> str:
        assert self.interface is not None  # only said of one
        return f"in A2A {self.interface.version} over {Binding(self.interface.binding).label} at {self._url}"

    @property
    def _url(self) -> str:
        return self.redactor.redact_text(finding.shown(self.interface.url)) if self.interface is not None else ""

    def found(self, trouble: Trouble | None) -> Report:
        outcome = self._outcome(trouble)
        shown = self._shown(outcome)
        said = self.redactor.redact_text(self._said(outcome, shown, trouble))
        last = f"It knows no task that nobody has. {TAKEN[shown]}" if outcome == Tested.WORKS else said
        steps = (*self.steps, Step(self._step(), outcome == Tested.WORKS, last))
        advice = judging.advice(outcome, shown)
        return Report(outcome, said, advice, shown, self.agent_name, self.interface, self._url, steps)

    def _outcome(self, trouble: Trouble | None) -> Tested:
        if trouble is None:
            return Tested.UNPROVEN
        found = judging.outcome(trouble, over_grpc=self.interface is not None and self.interface.binding == "GRPC")
        # Of a card that is refused, whatever the words: there is no way that could be asked.
        return Tested.NO_INTERFACE if self.interface is None and found in ASKED else found

    def _step(self) -> TestStep:
        """The one that this ended with."""
        if self.interface is not None:
            return TestStep.TASK
        return TestStep.INTERFACE if self.steps else TestStep.CARD

    def _shown(self, outcome: Tested) -> Shown:
        if self.target.credential is None:
            return Shown.NONE
        if self.interface is not None and not self._is_sent(self.interface):
            return Shown.WITHHELD
        known = {Tested.WORKS: Shown.ACCEPTED, Tested.CREDENTIAL_REFUSED: Shown.REFUSED}
        return known.get(outcome, Shown.UNKNOWN)

    def _is_sent(self, found: Interface) -> bool:
        trusts = self.target.trusts_host if found.binding == "GRPC" else self.target.trusts
        return trusts(found.url)

    def _said(self, outcome: Tested, shown: Shown, trouble: Trouble | None) -> str:
        if outcome == Tested.WORKS:
            return f"It answers {self._way}. {TAKEN[shown]}"
        if trouble is None:
            return f"It answers {self._way}, but with a task that there cannot be. {NOT_KNOWN}"
        if trouble.kind == Kind.NOT_FOUND and self.interface is not None:
            return f"Something answers at {self._url}, but perhaps no agent. {trouble.operator} {NOT_KNOWN}"
        return f"{trouble.operator} {NOT_KNOWN}" if outcome == Tested.UNPROVEN else trouble.operator
