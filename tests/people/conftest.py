"""People who sign in, and the browser's side of it."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.test import Client

from nhi import people
from nhi.actors import SYSTEM
from nhi.models import User

PASSWORD = "quiet-lamp-under-2-stairs"


@dataclass
class Somebody:
    user: User
    client: Client
    password: str = PASSWORD

    def sign_in(self, **more: str):
        body = {"username": self.user.username, "password": self.password, **more}
        return self.client.post("/admin/login/", body)

    def again(self) -> "Somebody":
        """The same person in another browser."""
        return Somebody(self.user, Client(), self.password)


Make = Callable[..., Somebody]


@pytest.fixture
def make(db: None) -> Make:
    def make(username: str = "mara", *roles: str, superuser: bool = False) -> Somebody:
        made = people.create(
            actor=SYSTEM, username=username, roles=roles or ("security-admin",), superuser=superuser, password=PASSWORD
        )
        return Somebody(made.user, Client())

    return make


@pytest.fixture
def mara(make: Make) -> Somebody:
    return make("mara")
