"""Callers of the API as a client sees it: a token, a path, a status and a JSON body."""

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from django.test import Client

from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.models import Identity, User

API = "/api/nhi/"
#: An id that nothing has.
ABSENT = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class Reply:
    status: int
    body: Any
    headers: Any

    @property
    def reason(self) -> str:
        return str(self.body["details"]["reason"])

    @property
    def fields(self) -> list[str]:
        return [one["field"] for one in self.body["details"]["fields"]]

    def is_refused(self, status: int, error_code: str, reason: str = "") -> bool:
        """Whether it is the envelope of every refusal, with this status and code."""
        keys = {"error_code", "message", "details", "request_id"}
        assert set(self.body) == keys, self.body
        uuid.UUID(self.body["request_id"])
        said = (self.status, self.body["error_code"])
        assert said == (status, error_code), self.body
        return not reason or self.reason == reason


@dataclass
class Caller:
    token: str = ""
    client: Client = field(default_factory=Client)

    def get(self, path: str, **query: Any) -> Reply:
        return self.send("GET", path, query=query)

    def post(self, path: str, body: Any = None) -> Reply:
        return self.send("POST", path, json.dumps({} if body is None else body))

    def patch(self, path: str, body: Any) -> Reply:
        return self.send("PATCH", path, json.dumps(body))

    def send(
        self,
        method: str,
        path: str,
        body: str | bytes = b"",
        *,
        query: dict[str, Any] | None = None,
        content_type: str = "application/json",
        **headers: str,
    ) -> Reply:
        if self.token:
            headers = {"Authorization": f"Bearer {self.token}", **headers}
        url = path if path.startswith("/") else API + path
        answer = self.client.generic(
            method, url, body, content_type=content_type, headers=headers, query_params=query or {}
        )
        is_json = answer.content and answer.headers["Content-Type"] == "application/json"
        return Reply(answer.status_code, json.loads(answer.content) if is_json else None, answer.headers)


def calling(holder: Identity | User) -> Caller:
    """The holder, with a credential of its own; a person's as `issue_user_token` makes it."""
    issued = credentials.issue(actor=SYSTEM, holder=holder, issues_credentials=isinstance(holder, User))
    return Caller(issued.token)
