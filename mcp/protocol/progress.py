"""Progress notifications of one request: only its own, and only rising values."""

from typing import Any

from mcp.protocol.jsonrpc import Message, RequestId


def add_progress_token(meta: Message | None, token: RequestId | None) -> Message:
    """Return the metadata of a request. A token requests progress notifications."""
    return {**(meta or {}), **({} if token is None else {"progressToken": token})}


class ProgressFilter:
    """Selects the progress notifications that carry the token of one request."""

    def __init__(self, token: RequestId) -> None:
        self._token = token
        self._last: float | None = None

    def select(self, message: Message) -> Message | None:
        """Return the parameters of a progress notification without its token.

        Return None for any other message and for a value that does not rise."""
        params: Any = message.get("params")
        if message.get("method") != "notifications/progress" or not isinstance(params, dict):
            return None
        progress = params.get("progress")
        if params.get("progressToken") != self._token or not isinstance(progress, int | float):
            return None
        if self._last is not None and progress <= self._last:
            return None
        self._last = progress
        return {name: value for name, value in params.items() if name not in {"progressToken", "_meta"}}
