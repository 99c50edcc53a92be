"""One table of badges: every choice of a model has its row, and no tone stands without an icon and a word."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.db.models import Choices
from django.utils import timezone

from common.console import badges
from common.console.badges import BADGES, Badge, Tone
from common.templatetags.console import badge
from nhi import choices
from nhi.console import state_badges as standing
from nhi.models import Credential, Identity

pytestmark = pytest.mark.capability("CON-05")
OURS = ("common", "nhi", "mcp", "supervisor", "a2a")


def vocabularies() -> list[type[Choices]]:
    """Every closed vocabulary of our apps: those of the fields, and those that pages derive."""
    loaded = {one for one in _below(Choices) if one.__module__.partition(".")[0] in OURS}
    return sorted(loaded, key=lambda one: one.__qualname__)


def _below(kind: type) -> set[type]:
    return {found for sub in kind.__subclasses__() for found in (sub, *_below(sub))}


@pytest.mark.parametrize("words", vocabularies(), ids=lambda words: words.__name__)
def test_every_choice_has_a_row(words: type[Choices]) -> None:
    assert apps.ready
    assert {str(value) for value in words.values} <= BADGES[badges.vocabulary(words)].keys()


@pytest.mark.parametrize("row", [row for rows in BADGES.values() for row in rows.values()], ids=lambda row: row.label)
def test_a_badge_is_an_icon_and_a_word(row: Badge) -> None:
    html = badge(row)
    assert row.label
    assert row.symbol
    assert f"gh-badge--{row.tone}" in html
    assert f'aria-hidden="true">{row.symbol}</span>{row.label}' in html


def test_red_means_trouble_and_not_no() -> None:
    assert badges.of(choices.Verdict.DENY).tone == Tone.LOOK
    assert badges.of(choices.GrantState.REVOKED).tone == Tone.STILL


@pytest.mark.parametrize(
    ("columns", "label"),
    [
        ({"expires_at": timedelta(days=-1)}, "Expired"),
        ({"expires_at": timedelta(days=30)}, "Live"),
        ({"expires_at": timedelta(days=6, minutes=1)}, "Ends in 6 d"),
    ],
)
def test_a_credential_says_when_it_ends(columns: dict[str, timedelta], label: str) -> None:
    moments = {name: timezone.now() + ahead for name, ahead in columns.items()}
    assert standing.credential(Credential(**moments)).label == label


def test_a_rotated_credential_says_until_when_it_works() -> None:
    now = timezone.now()
    row = Credential(expires_at=now + timedelta(hours=24), rotated_at=now)
    assert standing.credential(row).label.startswith("Rotating, old ends ")


def test_an_active_identity_past_its_end_is_expired() -> None:
    row = Identity(state=choices.State.ACTIVE, expires_at=timezone.now() - timedelta(minutes=1))
    assert standing.identity(row).label == "Expired"
