"""The view in which people change their own password. A change ends their other sessions."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.debug import sensitive_post_parameters

from common.errors import InvalidInput, NotAllowed
from nhi import actors
from nhi.people import people, sessions
from nhi.people.sessions import require_fresh_proof_first
from nhi.web import error_responses


class OwnPasswordForm(forms.Form):
    """Asks for the new password twice. The form does not check the rules for passwords."""

    password = forms.CharField(label="New password", max_length=4096, strip=False, widget=forms.PasswordInput)
    again = forms.CharField(label="New password again", max_length=4096, strip=False, widget=forms.PasswordInput)

    def clean_again(self) -> str:
        again: str = self.cleaned_data["again"]
        if again != self.cleaned_data.get("password", again):
            raise forms.ValidationError("The two differ. Type the same password twice.")
        return again


@method_decorator([login_required, require_fresh_proof_first], name="dispatch")
@method_decorator(sensitive_post_parameters("password", "again"), name="dispatch")
class ChangePasswordView(View):
    """The page on which people change their own password. It refuses people who have only single sign-on."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if request.user.is_authenticated and not request.user.has_usable_password():
            # A password in addition to single sign-on would outlive the account at the provider.
            raise NotAllowed("You sign in with single sign-on and have no password here.")
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.page(OwnPasswordForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        form = OwnPasswordForm(request.POST)
        if not form.is_valid():
            return self.page(form, status=400)
        user = sessions.signed_in_person(request)
        forced = user.must_change_password
        try:
            people.change_password(actor=actors.person(user), user=user, password=form.cleaned_data["password"])
        except InvalidInput as error:
            for problem in error.fields:
                form.add_error("password", problem.message)
            return self.page(form, status=400)
        # The change ends all sessions of the person; keep the current one.
        update_session_auth_hash(request, user)
        messages.success(request, "Your password was changed. Your other sessions have ended.")
        return redirect(settings.LOGIN_REDIRECT_URL if forced else "mfa_index")

    def page(self, form: OwnPasswordForm, *, status: int = 200) -> HttpResponse:
        forced = sessions.signed_in_person(self.request).must_change_password
        return error_responses.render_page(
            self.request, "account/password_change.html", status=status, form=form, forced=forced
        )
