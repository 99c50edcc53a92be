"""allauth's forms for second factors with our throttle: `mfa.check_code` counts, compares and spends codes."""

from typing import Any

from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.totp.forms import ActivateTOTPForm
from django import forms
from django.core.exceptions import ValidationError

from common.errors import RateLimited
from nhi.people import mfa
from nhi.people.sign_in import SignInRefused

LIMITED_CODE = "limited"


def _code_field() -> forms.CharField:
    attributes = {"autocomplete": "one-time-code", "inputmode": "numeric", "autofocus": True, "spellcheck": "false"}
    return forms.CharField(label="Code", max_length=40, widget=forms.TextInput(attrs=attributes))


class _ThrottledCodeMixin:
    """Checks the code with `mfa.check_code` and distinguishes a lock from a wrong code."""

    user: Any
    authenticator: Any
    cleaned_data: dict[str, Any]
    retry_after = 0

    def clean_code(self) -> str:
        code: str = self.cleaned_data["code"]
        try:
            self.authenticator = mfa.check_code(user=self.user, code=code)
        except RateLimited as refusal:
            self.retry_after = refusal.retry_after
            raise ValidationError(refusal.message, code=LIMITED_CODE) from refusal
        except SignInRefused as refusal:
            raise ValidationError(refusal.message, code=refusal.code) from refusal
        return code


class CodeForm(_ThrottledCodeMixin, AuthenticateForm):  # type: ignore[misc]  # allauth has no types
    """Asks for a code after the password at sign-in."""

    code = _code_field()


class ConfirmCodeForm(_ThrottledCodeMixin, ReauthenticateForm):  # type: ignore[misc]  # allauth has no types
    """Asks a person who is signed in for a code, to confirm a sensitive action."""

    code = _code_field()


class AddTotpForm(ActivateTOTPForm):  # type: ignore[misc]  # allauth has no types
    """Asks for the first code of a new authenticator app."""

    code = _code_field()

    def clean_code(self) -> str:
        # Many apps show the code with a space in the middle.
        self.cleaned_data["code"] = self.cleaned_data["code"].replace(" ", "")
        return str(super().clean_code())


def retry_after_seconds(form: Any) -> int:
    """Return the seconds to wait if a lock refused the form, else 0."""
    return int(getattr(form, "retry_after", 0))
