"""The badge class: a label, a tone and an icon."""

from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    GOOD = "good"
    BUSY = "busy"
    LOOK = "look"
    BAD = "bad"
    STILL = "still"


ICONS = {
    Tone.GOOD: "check_circle",
    Tone.BUSY: "sync",
    Tone.LOOK: "warning",
    Tone.BAD: "error",
    Tone.STILL: "circle",
}


@dataclass(frozen=True)
class Badge:
    label: str
    tone: Tone
    icon: str = ""

    @property
    def symbol(self) -> str:
        return self.icon or ICONS[self.tone]

    def saying(self, label: str) -> "Badge":
        """A copy with another label."""
        return Badge(label, self.tone, self.icon)
