"""The least that a queue could do for a task: a Celery worker that hands back what it was given.

`celery -A benchmarks.tasks.plain worker`, over the broker that BROKER_URL names, where its results are kept too.
"""

import os

from celery import Celery

from benchmarks.tasks.words import done

app = Celery("plain", broker=os.environ["BROKER_URL"], backend=os.environ["BROKER_URL"], set_as_current=False)
app.conf.update(
    # Ours and its messages are in one broker and never meet.
    broker_transport_options={"global_keyprefix": "plain:"},
    result_backend_transport_options={"global_keyprefix": "plain:"},
    broker_connection_retry_on_startup=True,
    task_default_queue="plain",
    # A task that was taken by a worker that died is not lost with it.
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_enable_remote_control=False,
    result_expires=600,
)


@app.task(name="plain.answer")
def answer(asked: str) -> str:
    return done(asked)
