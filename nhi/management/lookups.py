"""Finds identities, people and roles named on the command line: `agent/deploy-bot`, `mara`."""

from common.errors import InvalidInput
from nhi.choices import Kind
from nhi.models import Identity, Role, User


def find_identity(text: str) -> Identity:
    """Find an identity by `KIND/NAME`, such as `agent/deploy-bot`."""
    kind, slash, name = text.partition("/")
    if not slash or kind not in Kind.values:
        raise InvalidInput.for_field(
            "identity", f"Write KIND/NAME with KIND one of {', '.join(Kind.values)}, not {text!r}."
        )
    identity = Identity.objects.select_related("owner", "backup_owner").filter(kind=kind, name=name).first()
    if identity is None:
        raise InvalidInput.for_field("identity", f"There is no {Kind(kind).label.lower()} {name!r}.")
    return identity


def find_person(username: str) -> User:
    person: User | None = User.objects.filter(username=username).first()
    if person is None:
        raise InvalidInput.for_field("username", f"There is no person {username!r}.")
    return person


def find_role(name: str) -> Role:
    role = Role.objects.filter(name=name).first()
    if role is None:
        raise InvalidInput.for_field("role", f"There is no role {name!r}.")
    return role
