"""People who sign in, and the browser's side of it."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.test import Client

from nhi.actors import SYSTEM
from nhi.models import User
from nhi.people import people
from tests.people import totp

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


def set_up_app(person: Somebody) -> str:
    """Sign in, scan the secret, type the code. Returns the secret."""
    person.sign_in()
    page = person.client.get("/admin/sign-in/totp/activate/")
    assert page.status_code == 200, page.content
    secret = re.search(r'class="secret">([A-Z2-7]+)<', page.content.decode())[1]
    answer = person.client.post("/admin/sign-in/totp/activate/", {"code": totp.code(secret)})
    assert answer["Location"] == "/admin/sign-in/recovery-codes/"
    return secret


def sign_out(person: Somebody) -> None:
    assert person.client.post("/admin/logout/")["Location"] == "/admin/login/"
