"""What is said in every measured task, whoever does it: a number goes in, and the same number must come out."""

import json

from benchmarks.calls.load import MARK
from benchmarks.calls.processes import Request

ASKED, DONE = "call-", "done-"
VERSION = ("A2A-Version", "1.0")


def done(asked: str) -> str:
    return asked.replace(ASKED, DONE, 1)


def send(path: str, *headers: tuple[str, str], waits: bool) -> Request:
    """A2A's SendMessage over JSON-RPC, answered at once or when the task has ended.

    What comes at once shows the task with what was asked; what comes at the end, what was made of it.
    """
    message = {"messageId": f"m-{MARK}", "role": "ROLE_USER", "parts": [{"text": f"{ASKED}{MARK}"}]}
    params = {"message": message, "configuration": {"returnImmediately": not waits}}
    return rpc(path, "SendMessage", params, f"{DONE if waits else ASKED}{MARK}", *headers)


def rpc(path: str, method: str, params: object, expect: str, *headers: tuple[str, str]) -> Request:
    body = json.dumps({"jsonrpc": "2.0", "id": MARK, "method": method, "params": params})
    return Request(path, body, expect, (VERSION, *headers))


def bearer(token: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {token}"
