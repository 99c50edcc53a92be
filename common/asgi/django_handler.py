"""Runs Django in a pool of threads behind ASGI.

Django's own handler creates a thread for each request and switches between it and the event loop for each middleware.
No view of Gatehouse is asynchronous, so here a thread of the pool handles a request from start to end. A request is
handled to its end even if its client disconnects, as in any threaded server.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import close_old_connections
from django.urls import set_script_prefix

from common.asgi.bodies import Receive

#: The pool creates threads as needed. No request waits for a hanging thread before the pool has this many.
MAX_THREADS = 128


class ThreadedHandler(ASGIHandler):
    """Django's ASGI handler, but each request runs from start to end in one thread of a pool."""

    def __init__(self) -> None:
        super().__init__()
        self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="django")

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: ARG002 - Django's signature
        super().load_middleware(is_async=False)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Any) -> None:  # type: ignore[override]  # Django's stubs type the scope
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        loop, context = asyncio.get_running_loop(), copy_context()
        response = await loop.run_in_executor(self._threads, context.run, self._get_complete_response, scope, body)
        if not response.streaming:
            await self.send_response(response, send)
            return
        # All pieces are read in one thread with a database connection of its own.
        async with ThreadSensitiveContext():
            try:
                await self.send_response(response, send)
            finally:
                await sync_to_async(response.close)()

    def _get_complete_response(self, scope: dict[str, Any], body: Any) -> Any:
        """The complete response, or for a streaming response everything but its content."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refusal = self.create_request(scope, body)
        if request is None:
            body.close()
        response: Any = refusal if request is None else self.get_response(request)
        response._handler_class = self.__class__
        if response.streaming:
            close_old_connections()
        else:
            response.close()
        return response
