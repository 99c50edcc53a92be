"""Reading what a run answers, by its agent's output pattern."""

import json
from dataclasses import dataclass

from common import strict_json
from supervisor.choices import OutputPattern
from supervisor.runner import places
from supervisor.runner.words import Order

EXPECTED = 'Its answer is read from one line like {"jsonrpc": "2.0", "id": "…", "result": "…"}.'


class NoAnswer(Exception):
    """The program ended well and left no answer: why, as a sentence."""


@dataclass(frozen=True)
class Answer:
    """None for what it wrote to its standard output."""

    text: str | None
    size: int = 0
    cut: bool = False


def of(order: Order, pattern: str, written: bytes) -> Answer:
    if order.output_file is not None:
        try:
            data, size = places.read(order.output_file)
        except places.BadFile as problem:
            raise NoAnswer(str(problem)) from None
        return Answer(data.decode(errors="replace"), size, size > len(data))
    if pattern == OutputPattern.JSON_RPC:
        text = _response(written)
        return Answer(text, len(text.encode(errors="replace")))
    return Answer(None)


def request(number: str, given: str, parameters: object) -> bytes:
    """The one request that an agent of the pattern json-rpc is sent, as one line."""
    params = {"input": given, "parameters": parameters}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "execute", "params": params}).encode() + b"\n"


def _response(written: bytes) -> str:
    """The result of the last response among the lines; whatever else it writes is none."""
    lines = [line for line in written.splitlines() if line.strip()]
    for line in reversed(lines):
        try:
            said = strict_json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict) and "error" in said:
            raise NoAnswer(_refusal(said["error"]))
        if isinstance(said, dict) and "result" in said:
            result = said["result"]
            return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    raise NoAnswer(f"{_missing(lines)} {EXPECTED}")


def _missing(lines: list[bytes]) -> str:
    if not lines:
        return "It wrote nothing to its standard output."
    try:
        strict_json.loads(lines[-1])
    except ValueError:
        return "It wrote no JSON-RPC response: its last line is not JSON."
    return "It wrote no JSON-RPC response with a result."


def _refusal(error: object) -> str:
    message = error.get("message") if isinstance(error, dict) else None
    return f"It answered with an error: {message}"[:1000] if isinstance(message, str) else "It answered with an error."
