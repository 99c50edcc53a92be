"""The wiring as Django sees it: the console's admin site, and Celery for every process that may publish."""

from importlib import import_module

from django.apps import AppConfig
from django.contrib.admin import apps as admin
from django.contrib.admin import sites
from django.core.checks import Tags, register

from config import checks

LIBRARIES = frozenset({"auth", "account", "mfa", "socialaccount"})


class ConsoleConfig(admin.AdminConfig):
    """Named here so that `django.contrib.admin` finds the console's own site."""

    default = False
    default_site = "config.console.ConsoleSite"

    def ready(self) -> None:
        super().ready()
        site = sites.site
        # Libraries bring forms over their tables: factors, single sign-on, groups. Those change by our verbs alone.
        site.unregister([model for model in site._registry if model._meta.app_label in LIBRARIES])


class WiringConfig(AppConfig):
    name = "config"
    default = True

    def ready(self) -> None:
        # Tasks are declared without an app; the one made there becomes theirs. Workers count what they end.
        import_module("config.celery")
        import_module("config.metrics")
        import_module("config.description")
        register(Tags.security, deploy=True)(checks.proxies_are_named)
        register(Tags.security, deploy=True)(checks.metrics_are_guarded)
