"""What the app sets up when Django has loaded it."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class A2AConfig(AppConfig):
    name = "a2a"
    label = "a2a"
    verbose_name = "Tasks"

    def ready(self) -> None:
        # Models exist only from here on.
        from a2a import (  # noqa: PLC0415 - see the line before
            cancelling,
            carriers,
            chains,
            endings,
            following,
            hours,
            origins,
            relaying,
            rights,
            runtimes,
            waiting,
        )
        from a2a.choices import RuntimeKind  # noqa: PLC0415 - the same
        from a2a.remote import errands  # noqa: PLC0415 - the same
        from nhi import hooks  # noqa: PLC0415 - the same
        from supervisor import moves, watching  # noqa: PLC0415 - the same

        post_migrate.connect(rights.after_migrate, sender=self, dispatch_uid="a2a.rights")
        hooks.add_stop_step(cancelling.STEP)
        carriers.add(RuntimeKind.REMOTE, errands.CARRIER)
        moves.on_moved(following.follow)
        moves.on_written(relaying.heard)
        endings.on_end(following.let_go)
        hooks.set_hourly_quota_source(hours.left)
        hooks.set_task_source(chains.known)
        hooks.add_work_source(origins.SOURCE)
        hooks.on_waiting_call(waiting.LISTENER)
        watching.add(runtimes.watched)
