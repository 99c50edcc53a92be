"""Every path that Django answers."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from config import health, metrics
from nhi.admin.home import Home

urlpatterns = [
    # Whoever types the address alone is a person.
    path("", RedirectView.as_view(url="/admin/")),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    path("admin/", include("nhi.web.urls")),
    path("admin/", admin.site.admin_view(Home.as_view())),
    path("admin/", admin.site.urls),
    path("", include("config.api")),
]
handler400 = "nhi.web.error_responses.bad_request"
handler403 = "nhi.web.error_responses.permission_denied"
handler404 = "nhi.web.error_responses.page_not_found"
handler500 = "nhi.web.error_responses.server_error"
