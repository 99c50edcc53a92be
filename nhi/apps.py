"""App configuration: connects migration signals and system checks."""

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.db.models.signals import post_migrate, pre_migrate


class NhiConfig(AppConfig):
    """The Django app `nhi`. It reinstalls the append-only triggers after a migration."""

    name = "nhi"
    label = "nhi"
    verbose_name = "Identities and access"

    def ready(self) -> None:
        # Models cannot be imported earlier.
        from nhi.access import rights  # noqa: PLC0415 - as above
        from nhi.audit import checks, trigger_repair  # noqa: PLC0415 - as above

        pre_migrate.connect(trigger_repair.before_migrate, sender=self, dispatch_uid="nhi.guards")
        post_migrate.connect(trigger_repair.after_migrate, sender=self, dispatch_uid="nhi.guards")
        post_migrate.connect(rights.after_migrate, sender=self, dispatch_uid="nhi.rights")
        # For deployments only: an ordinary check would stop the `migrate` that reinstalls the triggers.
        register(Tags.database, deploy=True)(checks.guards_are_set)
        register(Tags.security, deploy=True)(checks.signing_keys_are_set)
