"""An answer put together from what comes of it: whole, or as pieces of its text and of the calls that it wants."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from supervisor.chat import faults

#: Of text and arguments together, in characters.
LONGEST = 1024 * 1024
MOST_CALLS = 64
LONGEST_ID, LONGEST_NAME = 200, 300


@dataclass(frozen=True)
class Call:
    """A tool that the model wants called; its arguments as it wrote them."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Used:
    """Tokens, as far as the endpoint counts them."""

    prompt: int = 0
    completion: int = 0

    def __add__(self, other: "Used") -> "Used":
        return Used(self.prompt + other.prompt, self.completion + other.completion)


@dataclass(frozen=True)
class Answer:
    text: str
    calls: tuple[Call, ...]
    #: Why it ends where it does.
    finish: str
    used: Used


@dataclass
class _Begun:
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Assembly:
    """`take` is given each event of a stream in turn, or the one body of an answer that is not streamed."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._text: list[str] = []
        self._calls: list[_Begun] = []
        #: By the number that fragments of one call share.
        self._open: dict[Any, _Begun] = {}
        self._size = 0
        self._finish = ""
        self._used = Used()
        self._ended = False

    def take(self, event: Any) -> None:
        if not isinstance(event, dict):
            raise faults.unreadable("The endpoint's answer is no JSON object.")
        if event.get("error"):
            raise faults.passing("The endpoint broke off with an error.", said=error_text(event))
        self._used = _used(event.get("usage")) or self._used
        choices = event.get("choices")
        if not isinstance(choices, list):
            raise faults.unreadable("The endpoint's answer has no list of choices.")
        if choices:
            self._choice(choices[0])

    def end(self) -> None:
        """The endpoint says that this is all."""
        self._ended = True

    def answer(self) -> Answer:
        if not self._ended:
            raise faults.passing("The endpoint's answer stopped before its end.")
        calls = tuple(
            Call(begun.id or f"call_{number}", begun.name, "".join(begun.arguments))
            for number, begun in enumerate(self._calls, 1)
        )
        return Answer("".join(self._text), calls, self._finish, self._used)

    def _choice(self, choice: Any) -> None:
        said = choice.get("delta") or choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(said, dict | None):
            raise faults.unreadable("A choice in the endpoint's answer is none.")
        if choice.get("message") or choice.get("finish_reason"):
            self._ended = True
        self._finish = _text(choice.get("finish_reason"))[:LONGEST_ID] or self._finish
        if said is None:
            return
        if text := _text(said.get("content")) or _text(said.get("refusal")):
            self._grow(text)
            self._text.append(text)
            self._on_text(text)
        calls = said.get("tool_calls") or []
        if not isinstance(calls, list):
            raise faults.unreadable("The endpoint's answer has tool calls that are no list.")
        for place, fragment in enumerate(calls):
            self._fragment(fragment, place)

    def _fragment(self, said: Any, place: int) -> None:
        function = said.get("function") or {} if isinstance(said, dict) else None
        if not isinstance(said, dict) or not isinstance(function, dict):
            raise faults.unreadable("The endpoint's answer has a tool call that is none.")
        begun = self._begun(_text(said.get("id"))[:LONGEST_ID], said.get("index", place))
        # Some send the name once more with each fragment.
        if (name := _text(function.get("name"))) and name != begun.name:
            begun.name = (begun.name + name)[:LONGEST_NAME]
        arguments = _text(function.get("arguments"))
        self._grow(arguments)
        begun.arguments.append(arguments)

    def _begun(self, number: str, index: Any) -> _Begun:
        """The call that a fragment belongs to. Some number all calls 0; then another id is another call."""
        key = index if isinstance(index, int) else 0
        found = self._open.get(key)
        if found is None or (number and number != found.id):
            if len(self._calls) >= MOST_CALLS:
                raise faults.unreadable(f"The model wants more than {MOST_CALLS} tools called at once.")
            found = self._open[key] = _Begun(number)
            self._calls.append(found)
        return found

    def _grow(self, text: str) -> None:
        self._size += len(text)
        if self._size > LONGEST:
            raise faults.unreadable(f"The model's answer is longer than {LONGEST >> 20} MiB.")


def error_text(body: Any) -> str:
    """What a body says went wrong, wherever it says so; data of the endpoint's."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error.get("code")
    return _text(error) if isinstance(error, str) else ""


def _used(said: Any) -> Used | None:
    if not isinstance(said, dict):
        return None
    return Used(_count(said.get("prompt_tokens")), _count(said.get("completion_tokens")))


def _count(said: Any) -> int:
    return said if isinstance(said, int) and 0 <= said < 2**53 else 0


def _text(said: Any) -> str:
    """A text that can be written; nothing for what is none. Half of a surrogate pair is no character."""
    if said is None:
        return ""
    if not isinstance(said, str):
        raise faults.unreadable("The endpoint's answer has something else where it should have text.")
    return said.encode(errors="replace").decode()
