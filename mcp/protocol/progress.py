"""Progress of one request: only its own, and only forward."""

from typing import Any

from mcp.protocol.jsonrpc import Message, RequestId


def add_progress_token(meta: Message | None, token: RequestId | None) -> Message:
    """The metadata of a request; with a token it asks to be told of progress."""
    return {**(meta or {}), **({} if token is None else {"progressToken": token})}


class ProgressFilter:
    """Picks the notifications that belong to the request whose token it is."""

    def __init__(self, token: RequestId) -> None:
        self._token = token
        self._last: float | None = None

    def select(self, message: Message) -> Message | None:
        """What a notification says without its token; None for anything else and for steps back."""
        params: Any = message.get("params")
        if message.get("method") != "notifications/progress" or not isinstance(params, dict):
            return None
        done = params.get("progress")
        if params.get("progressToken") != self._token or not isinstance(done, int | float):
            return None
        if self._last is not None and done <= self._last:
            return None
        self._last = done
        return {name: value for name, value in params.items() if name not in {"progressToken", "_meta"}}
