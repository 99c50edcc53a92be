"""Seed 001's envelope: who writes to whom in which conversation, around a method's parameters or around its result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from a2a.wire.codecs import Codec, Codecs
from a2a.wire.faults import Fault, Kind, invalid
from a2a.wire.methods import GET, SEND
from a2a.wire.reading import Read, Reader
from a2a.wire.v03 import json as old
from a2a.wire.v1 import requests
from a2a.wire.v1.requests import LONGEST_ID, moment, struct

PROTOCOL, REQUEST = "a2a", "request"
EXECUTE, STATUS = "execute-agent", "status"
METHODS = (EXECUTE, STATUS)
#: The latest of each version is what is answered in; who says none speaks 0.3, as everywhere.
VERSIONS = {"1.0": "1.0", "0.3": "0.3.0"}
CODECS: Mapping[str, Codecs] = {
    "1.0": {name: Codec(read) for name, read in requests.READERS.items()},
    "0.3": old.OPERATIONS,
}
PARAMS = "payload.params"
LONGEST_TEXT = 1024 * 1024


@dataclass(frozen=True)
class Heading:
    """What an answer repeats of its request, as far as that can be read."""

    id: str = ""
    version: str = "0.3"
    sender: str = ""
    agent: str = ""
    conversation: str = ""
    message: str = ""


@dataclass(frozen=True)
class Letter:
    heading: Heading
    method: str
    params: Mapping[str, Any] = field(repr=False)


def heading(sent: Any) -> Heading:
    """Never refuses: also what is wrong is answered to somebody."""
    whole = _object(sent)
    around = _object(whole.get("context"))
    names = {"sender": "from", "agent": "to", "conversation": "conversationId", "message": "messageId"}
    said = {name: _short(around.get(key)) for name, key in names.items()}
    return Heading(_short(whole.get("id")), _version(whole.get("version")) or "0.3", **said)


def read(sent: Any) -> Letter:
    if not isinstance(sent, dict):
        raise Fault(Kind.INVALID_REQUEST, "Send an envelope, which is an object.")
    reader = Reader()
    known: dict[str, Read] = {
        "protocol": partial(Reader.choice, choices=(PROTOCOL,)),
        "version": _known_version,
        "id": _identifier,
        "type": partial(Reader.choice, choices=(REQUEST,)),
        "timestamp": moment,
        "context": _context,
        "payload": _payload,
    }
    found = reader.fields("", sent, known, required=("protocol", "id", "type", "payload"))
    if reader.problems:
        said = invalid(*reader.problems)
        raise Fault(Kind.INVALID_REQUEST, said.message, said.fields)
    payload = found["payload"]
    if payload["method"] not in METHODS:
        raise Fault(Kind.METHOD_NOT_FOUND, f"payload.method: Use one of {', '.join(METHODS)}.")
    return Letter(heading(sent), payload["method"], payload.get("params", {}))


def task_sent(letter: Letter) -> dict[str, Any]:
    """The parameters of 1.0's `SendMessage`: of a whole message in the envelope's version, else of an input."""
    read = _message if "message" in letter.params else _input
    found = read(letter)
    message, conversation = found["message"], letter.heading.conversation
    if conversation and message.get("contextId", conversation) != conversation:
        raise invalid(("context.conversationId", "The message names another context; leave one of them out."))
    if conversation and "taskId" not in message:
        found["message"] = {**message, "contextId": conversation}
    # Nobody is kept waiting: how it goes is asked for with `status`.
    found["configuration"] = {**found.get("configuration", {}), "returnImmediately": True}
    return found


def task_asked(letter: Letter) -> dict[str, Any] | None:
    """The parameters of 1.0's `GetTask`; None where no task is named."""
    given = dict(letter.params)
    named = next((given[name] for name in ("id", "taskId", "task_id") if given.get(name) is not None), None)
    return None if named is None else _by(letter, GET, {**given, "id": named})


def written(letter: Letter, operation: str, told: Mapping[str, Any]) -> Any:
    """The result in the words of the version that the envelope speaks."""
    return CODECS[letter.heading.version][operation].write(told)


def answer(to: Heading, *, answer_id: str, at: str, conversation: str = "", **payload: Any) -> dict[str, Any]:
    """`result` or `error` is the payload."""
    around = {"from": to.agent, "to": to.sender, "conversationId": conversation or to.conversation}
    return {
        "protocol": PROTOCOL,
        "version": VERSIONS[to.version],
        "id": answer_id,
        "type": "error" if "error" in payload else "response",
        "timestamp": at,
        "inResponseTo": to.id,
        "context": {**around, "messageId": to.message},
        "payload": payload,
    }


def error(fault: Fault) -> dict[str, Any]:
    return {"code": fault.kind.value.jsonrpc, "message": fault.message, "data": fault.details_as_any()}


def _message(letter: Letter) -> dict[str, Any]:
    return _by(letter, SEND, letter.params)


def _input(letter: Letter) -> dict[str, Any]:
    """An input stands for a message with one part; with parameters, both are the part's data."""
    reader = Reader()
    known: dict[str, Read] = {"input": _text_or_object, "parameters": struct, "taskType": _line}
    found = reader.fields(PARAMS, letter.params, known, required=("input",))
    reader.settle()
    given, parameters = found["input"], found.get("parameters")
    part = {"text": given} if isinstance(given, str) else {"data": given}
    if parameters:
        part = {"data": {"input": given, "parameters": parameters}}
    said = {"messageId": letter.heading.message or letter.heading.id, "role": "ROLE_USER", "parts": [part]}
    return {"message": said, "metadata": {"task_type": found.get("taskType", "")}}


def _by(letter: Letter, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return CODECS[letter.heading.version][operation].read(params)
    except Fault as fault:
        raise invalid(*((f"{PARAMS}.{name}", said) for name, said in fault.fields)) from fault


def _context(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    known = dict.fromkeys(("from", "to", "conversationId", "messageId"), _line)
    return reader.fields(place, value, known)


def _payload(reader: Reader, place: str, value: Any) -> dict[str, Any]:
    known: dict[str, Read] = {"method": _line, "params": struct}
    return {"method": "", **reader.fields(place, value, known, required=("method",))}


def _known_version(reader: Reader, place: str, value: Any) -> str:
    found = _version(value)
    if not found:
        reader.wrong(place, f"This server speaks {' and '.join(VERSIONS)}; say one of them.")
    return found


def _version(said: Any) -> str:
    """Patches differ in nothing that is sent."""
    if not isinstance(said, str):
        return ""
    return next((known for known in VERSIONS if said == known or said.startswith(f"{known}.")), "")


def _text_or_object(reader: Reader, place: str, value: Any) -> Any:
    return value if isinstance(value, dict) else reader.text(place, value, most=LONGEST_TEXT)


def _identifier(reader: Reader, place: str, value: Any) -> str:
    if value == "":
        reader.wrong(place, "Give an id, which the answer names in inResponseTo.")
    return _line(reader, place, value)


def _line(reader: Reader, place: str, value: Any) -> str:
    return reader.text(place, value, most=LONGEST_ID)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _short(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= LONGEST_ID else ""
