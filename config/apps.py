"""The wiring as Django sees it: the console's admin site, and Celery for every process that may publish."""

from importlib import import_module

from django.apps import AppConfig
from django.contrib.admin import apps as admin


class ConsoleConfig(admin.AdminConfig):
    """Named here so that `django.contrib.admin` finds the console's own site."""

    default = False
    default_site = "config.console.ConsoleSite"


class WiringConfig(AppConfig):
    name = "config"
    default = True

    def ready(self) -> None:
        # Tasks are declared without an app; the one made there becomes theirs. Workers count what they end.
        import_module("config.celery")
        import_module("config.metrics")
        import_module("config.description")
