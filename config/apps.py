"""The console's admin site, named here so that `django.contrib.admin` finds it."""

from django.contrib.admin.apps import AdminConfig


class ConsoleConfig(AdminConfig):
    default_site = "config.admin.ConsoleSite"
