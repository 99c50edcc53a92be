"""The API as the web process serves it, for answers that take long."""

from django.core.asgi import get_asgi_application

from common.asgi.bodies import limit_body
from supervisor.api.following import Followed
from tests.services import asgi
from tests.services.asgi import LONGEST, Answer, Event

__all__ = ["LONGEST", "Answer", "Door", "Event"]


class Door(asgi.Door):
    def __init__(self) -> None:
        self._followed = Followed(get_asgi_application())
        super().__init__(limit_body(self._followed, limit=1024 * 1024))

    def close(self) -> None:
        self._followed.close()

    async def get(self, path: str, token: str = "", query: str = "", **headers: str) -> Answer:
        return await self.ask("GET", f"/api/nhi/supervisor/{path}", token, query, **headers)
