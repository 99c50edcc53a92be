"""What this process keeps of servers, ended before its database is emptied."""

from common import egress, executors
from mcp.client import transports
from mcp.gateway.batch.worker import batch_worker


def end() -> None:
    batch_worker.stop()
    batch_worker.restart()
    executors.background_loop.stop(_let_go)


async def _let_go() -> None:
    await transports.close_all()
    await egress.close_session()
