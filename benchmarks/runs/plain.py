"""The least that a queue could do for a program: a Celery worker that calls it and hands back what it wrote.

`celery -A benchmarks.runs.plain worker`, over the broker that BROKER_URL names, where its results are kept too.
"""

import os
import subprocess

from celery import Celery

app = Celery("plain", broker=os.environ["BROKER_URL"], backend=os.environ["BROKER_URL"], set_as_current=False)
app.conf.update(
    # Ours and its messages are in one broker and never meet.
    broker_transport_options={"global_keyprefix": "plain:"},
    result_backend_transport_options={"global_keyprefix": "plain:"},
    broker_connection_retry_on_startup=True,
    task_default_queue="plain",
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
)


@app.task(name="plain.call")
def call(program: str) -> str:
    return subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
