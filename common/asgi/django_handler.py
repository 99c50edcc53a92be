"""Django behind ASGI, in threads that stay.

Django's own handler makes a thread for each request, and goes to and fro between it and the loop for each layer of
middleware. None of our views is written for the loop, so a request is answered in one go, by a thread that has answered
others before. One whose client has gone is answered to its end, as by any other server of threads.
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

#: At a time. As many are made as are needed at once, and none waits for one that hangs before there are as many.
MAX_THREADS = 128


class ThreadedHandler(ASGIHandler):
    def __init__(self) -> None:
        super().__init__()
        self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="django")

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: ARG002 - Django asks for the loop's
        super().load_middleware(is_async=False)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Any) -> None:  # type: ignore[override]  # Django's stubs know more of a scope
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        loop, context = asyncio.get_running_loop(), copy_context()
        response = await loop.run_in_executor(self._threads, context.run, self._get_complete_response, scope, body)
        if not response.streaming:
            await self.send_response(response, send)
            return
        # Each piece is read in one thread, which has a connection of its own for it.
        async with ThreadSensitiveContext():
            try:
                await self.send_response(response, send)
            finally:
                await sync_to_async(response.close)()

    def _get_complete_response(self, scope: dict[str, Any], body: Any) -> Any:
        """The whole of it, or where it streams all but its pieces."""
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
