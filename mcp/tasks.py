"""Work that Celery carries here. Each task calls a verb, and may run twice without harm."""

from celery import shared_task

from mcp import approvals, budgets, health, rollups
from mcp.clerk import recording


@shared_task(name="mcp.sweep")
def sweep() -> None:
    recording.reap()
    approvals.expire()
    budgets.forget()


@shared_task(name="mcp.check_servers")
def check_servers() -> None:
    health.sweep()


@shared_task(name="mcp.refresh_servers")
def refresh_servers() -> None:
    health.refresh_due()


@shared_task(name="mcp.tidy")
def tidy() -> None:
    rollups.roll_up()
    health.forget()
