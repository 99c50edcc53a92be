"""Notifications for those who wait for an event of a task, or for a task in an agent's inbox."""

from a2a.models import Task, TaskEvent
from common.db.notifier import ChangeQueries, Notifier

#: Of each event after a row: its row, its task, and the agent in whose inbox that is or was.
CHANGES = ChangeQueries(
    last_row_sql=f"SELECT coalesce(max(rowid), 0) FROM {TaskEvent._meta.db_table}",  # noqa: S608 - names of models
    rows_after_sql=(
        f"SELECT event.rowid, task.id, task.agent_id FROM {TaskEvent._meta.db_table} event"  # noqa: S608 - as above
        f" JOIN {Task._meta.db_table} task ON task.id = event.task_id WHERE event.rowid > %s ORDER BY event.rowid"
    ),
)

notifier = Notifier("a2a_news", CHANGES, thread_name="task-news")
