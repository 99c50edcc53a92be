"""Signing in and out, and what one signs in with. Mounted under /admin/, ahead of the admin site's own pages."""

from django.contrib import admin
from django.urls import path

from nhi.admin import account
from nhi.views import factors, password, sign_in, sso

urlpatterns = [
    *account.URLS,
    path("login/", sign_in.SignIn.as_view(), name="account_login"),
    path("logout/", sign_in.SignOut.as_view(), name="account_logout"),
    path("session/", sign_in.session, name="session"),
    path("password_change/", password.ChangePassword.as_view(), name="account_change_password"),
    path("sign-in/", admin.site.admin_view(factors.Overview.as_view()), name="mfa_index"),
    path("sign-in/confirm/", sign_in.Confirm.as_view(), name="account_reauthenticate"),
    path("sign-in/authenticate/", factors.Prove.as_view(), name="mfa_authenticate"),
    path("sign-in/reauthenticate/", factors.ConfirmByCode.as_view(), name="mfa_reauthenticate"),
    path("sign-in/totp/activate/", factors.AddTotp.as_view(), name="mfa_activate_totp"),
    path("sign-in/totp/deactivate/", factors.RemoveTotp.as_view(), name="mfa_deactivate_totp"),
    path("sign-in/recovery-codes/", factors.RecoveryCodes.as_view(), name="mfa_view_recovery_codes"),
    path("sign-in/recovery-codes/generate/", factors.MakeRecoveryCodes.as_view(), name="mfa_generate_recovery_codes"),
    path("sign-in/webauthn/add/", factors.AddPasskey.as_view(), name="mfa_add_webauthn"),
    path("sign-in/webauthn/login/", factors.SignInByPasskey.as_view(), name="mfa_login_webauthn"),
    path("sign-in/webauthn/reauthenticate/", factors.ConfirmByPasskey.as_view(), name="mfa_reauthenticate_webauthn"),
    path("sign-in/webauthn/keys/<int:pk>/edit/", factors.RenamePasskey.as_view(), name="mfa_edit_webauthn"),
    path("sign-in/webauthn/keys/<int:pk>/remove/", factors.RemovePasskey.as_view(), name="mfa_remove_webauthn"),
    path("sso/cancelled/", sso.cancelled, name="socialaccount_login_cancelled"),
    path("sso/signup/", sso.back_to_sign_in, name="socialaccount_signup"),
    path("sso/disconnect/<int:pk>/", sso.disconnect, name="sso_disconnect"),
    path("sso/<slug:provider_id>/login/", sso.start, name="openid_connect_login"),
    path("sso/<slug:provider_id>/login/callback/", sso.callback, name="openid_connect_callback"),
    # allauth looks these two names up; what they were for is not built here.
    path("sign-in/inactive/", sign_in.closed, name="account_inactive"),
    path("sign-in/signup/", sign_in.closed, name="account_signup"),
]
