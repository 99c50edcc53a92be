"""App configuration of the gateway: connects it to Django and to the hooks of `nhi`."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class McpConfig(AppConfig):
    """The Django app `mcp`. It adds its conditions, stop steps and listeners to the hooks of `nhi`."""

    name = "mcp"
    label = "mcp"
    verbose_name = "Gateway"

    def ready(self) -> None:
        # Models cannot be imported before this point.
        from mcp import rights  # noqa: PLC0415 - as above
        from mcp.gateway import dry_run  # noqa: PLC0415 - as above
        from mcp.gateway.batch import active_calls  # noqa: PLC0415 - as above
        from mcp.limits import budgets  # noqa: PLC0415 - as above
        from mcp.tools import catalogue  # noqa: PLC0415 - as above
        from nhi import hooks  # noqa: PLC0415 - as above

        post_migrate.connect(rights.after_migrate, sender=self, dispatch_uid="mcp.rights")
        hooks.add_condition_source(dry_run.find_conditions)
        hooks.set_schema_source(dry_run.find_argument_schemas)
        hooks.add_stop_step(active_calls.CALLS_STOP_STEP)
        hooks.on_identity_change(catalogue.on_capability_change)
        hooks.on_grant_replaced(budgets.move_to_grant)
