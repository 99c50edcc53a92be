"""What a run wrote, as a file. As it comes, pages read it from the stream that programs read, too."""

from django.http import HttpRequest, HttpResponseBase
from django.urls import path

from common.console import downloads
from nhi.console.base import ActorPage
from supervisor.admin.executions_hub import OfExecution
from supervisor.choices import Stream
from supervisor.models import OutputChunk

PIECES = 200
#: What a terminal would obey, as a picture of it.
SHOWN = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n\r"} | {0x7F: "\u2421"}


class Download(OfExecution, ActorPage):
    """All of it that was kept."""

    def get(self, request: HttpRequest, **_kwargs: object) -> HttpResponseBase:  # type: ignore[override]  # no page, a file
        rows = OutputChunk.objects.filter(execution=self.run).order_by("seq")
        if (stream := request.GET.get("stream", "")) in Stream.values:
            rows = rows.filter(stream=stream)
        texts = rows.values_list("text", flat=True).iterator(chunk_size=PIECES)
        name = f"run-{self.run.number}-{self.run.pk}.txt"
        return downloads.download(
            request, (text.translate(SHOWN) for text in texts), name=name, content_type="text/plain; charset=utf-8"
        )


URLS = [path("<uuid:pk>/download/", Download.as_view(), name="supervisor_execution_download")]
