"""URLs of sign-in, sign-out, factors and passwords. Mounted under /admin/, before the admin site's own pages."""

from django.contrib import admin
from django.urls import path

from nhi.admin.people import account
from nhi.web import mfa_views, password_views, sign_in_views, sso_views

urlpatterns = [
    *account.URLS,
    path("login/", sign_in_views.SignInView.as_view(), name="account_login"),
    path("logout/", sign_in_views.SignOutView.as_view(), name="account_logout"),
    path("session/", sign_in_views.session_status, name="session"),
    path("password_change/", password_views.ChangePasswordView.as_view(), name="account_change_password"),
    path("sign-in/", admin.site.admin_view(mfa_views.SignInSettingsView.as_view()), name="mfa_index"),
    path("sign-in/confirm/", sign_in_views.ConfirmPasswordView.as_view(), name="account_reauthenticate"),
    path("sign-in/authenticate/", mfa_views.MfaSignInView.as_view(), name="mfa_authenticate"),
    path("sign-in/reauthenticate/", mfa_views.ConfirmByCodeView.as_view(), name="mfa_reauthenticate"),
    path("sign-in/totp/activate/", mfa_views.AddTotpView.as_view(), name="mfa_activate_totp"),
    path("sign-in/totp/deactivate/", mfa_views.RemoveTotpView.as_view(), name="mfa_deactivate_totp"),
    path("sign-in/recovery-codes/", mfa_views.RecoveryCodesView.as_view(), name="mfa_view_recovery_codes"),
    path(
        "sign-in/recovery-codes/generate/",
        mfa_views.MakeRecoveryCodesView.as_view(),
        name="mfa_generate_recovery_codes",
    ),
    path("sign-in/webauthn/add/", mfa_views.AddPasskeyView.as_view(), name="mfa_add_webauthn"),
    path("sign-in/webauthn/login/", mfa_views.PasskeySignInView.as_view(), name="mfa_login_webauthn"),
    path(
        "sign-in/webauthn/reauthenticate/", mfa_views.ConfirmByPasskeyView.as_view(), name="mfa_reauthenticate_webauthn"
    ),
    path("sign-in/webauthn/keys/<int:pk>/edit/", mfa_views.RenamePasskeyView.as_view(), name="mfa_edit_webauthn"),
    path("sign-in/webauthn/keys/<int:pk>/remove/", mfa_views.RemovePasskeyView.as_view(), name="mfa_remove_webauthn"),
    path("sso/cancelled/", sso_views.cancelled, name="socialaccount_login_cancelled"),
    path("sso/signup/", sso_views.refuse_signup, name="socialaccount_signup"),
    path("sso/disconnect/<int:pk>/", sso_views.disconnect, name="sso_disconnect"),
    path("sso/<slug:provider_id>/login/", sso_views.start, name="openid_connect_login"),
    path("sso/<slug:provider_id>/login/callback/", sso_views.callback, name="openid_connect_callback"),
    # allauth reverses these two names, but Gatehouse does not offer the pages.
    path("sign-in/inactive/", sign_in_views.redirect_to_sign_in, name="account_inactive"),
    path("sign-in/signup/", sign_in_views.redirect_to_sign_in, name="account_signup"),
]
