"""The agent that the protocol's test kit talks to: an identity with an inbox, and a token for the worker behind it."""

from nhi.actors import SYSTEM
from nhi.choices import Kind
from nhi.credentials import credentials
from nhi.identities import identities
from nhi.models import Identity, User
from nhi.people import people

NAME = "tck"
SAYS = "Answers the A2A protocol's test kit by the ids of its messages."


def seed() -> str:
    """The worker's token, new each time; those of before are refused from then on."""
    agent = Identity.objects.filter(kind=Kind.AGENT, name=NAME).first() or _made()
    return credentials.replace(actor=SYSTEM, holder=agent, days=credentials.DEFAULT_DAYS).token


def _made() -> Identity:
    return identities.create(
        actor=SYSTEM, kind=Kind.AGENT, name=NAME, owner=_owner(), description=SAYS, discoverable=True
    )  # fmt: skip


def _owner() -> User:
    """Every identity has one; in an empty house somebody is made up who cannot sign in."""
    found = User.objects.filter(is_active=True).order_by("-is_superuser", "date_joined").first()
    return found or people.create(actor=SYSTEM, username=f"{NAME}-owner").user
