"""Form fields for several values, one per line."""

from typing import Any

from django import forms


class LinesField(forms.CharField):
    """A list of values, one per line. Spaces are kept, because they may have a meaning for a program."""

    widget = forms.Textarea

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"strip": False, "required": False, **options})
        self.widget.attrs |= {"rows": 3, "spellcheck": "false", "autocomplete": "off", "wrap": "off"}

    def to_python(self, value: Any) -> Any:
        return [line for line in str(value or "").splitlines() if line.strip()]

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def run_validators(self, value: Any) -> None:
        """No validation here: the function that saves the values checks each of them."""


class PairsField(LinesField):
    """A dictionary, one `NAME=value` or `Name: value` per line."""

    def __init__(self, *, mark: str, **options: Any) -> None:
        super().__init__(**options)
        self.mark = mark

    def to_python(self, value: Any) -> Any:
        pairs: dict[str, str] = {}
        problems = []
        for number, line in enumerate(str(value or "").splitlines(), 1):
            name, separator, pair_value = line.partition(self.mark)
            name = name.strip()
            if not line.strip():
                continue
            if not separator or not name:
                problems.append(f"Line {number}: write a name, {self._called}, and the value.")
            elif name in pairs:
                problems.append(f"Line {number}: {name} stands here twice.")
            pairs[name] = pair_value.strip() if self.mark == ":" else pair_value
        if problems:
            raise forms.ValidationError(problems)
        return pairs

    @property
    def _called(self) -> str:
        return "a colon" if self.mark == ":" else "="

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        separator = ": " if self.mark == ":" else self.mark
        return "\n".join(f"{name}{separator}{pair_value}" for name, pair_value in value.items())
