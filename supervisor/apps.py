"""What the app sets up when Django has loaded it."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class SupervisorConfig(AppConfig):
    name = "supervisor"
    label = "supervisor"
    verbose_name = "Runs"

    def ready(self) -> None:
        from nhi import hooks  # noqa: PLC0415 - models exist only from here on
        from supervisor import cancelling, origins, rights  # noqa: PLC0415 - the same
        from supervisor.schedules import pausing  # noqa: PLC0415 - the same

        post_migrate.connect(rights.after_migrate, sender=self, dispatch_uid="supervisor.rights")
        hooks.add_stop_step(pausing.STEP)
        hooks.add_stop_step(cancelling.STEP)
        hooks.add_work_source(origins.SOURCE)
