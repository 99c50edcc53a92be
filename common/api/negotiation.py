"""Which parser and which renderer: the answer is JSON whatever `Accept` says."""

from collections.abc import Iterable
from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request


class OnlyOne(DefaultContentNegotiation):
    def select_parser(self, request: Request, parsers: Any) -> BaseParser | None:
        # A verb whose every key is optional may come without a body, and then without a type.
        if not request.content_type and parsers:
            return parsers[0]  # type: ignore[no-any-return]  # instances, though the stubs say classes
        return super().select_parser(request, parsers)

    def select_renderer(
        self,
        request: Request,  # noqa: ARG002 - the framework's signature
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,  # noqa: ARG002 - the same
    ) -> tuple[BaseRenderer, str]:
        first = next(iter(renderers))
        return first, first.media_type
