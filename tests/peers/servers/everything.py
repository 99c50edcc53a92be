"""The SDK's own "everything" server, as `make peers` unpacked it, on a free port."""

import asyncio
import sys
from pathlib import Path

from listening import serve

sys.path.insert(0, str(Path(sys.prefix)))
from everything.server import event_store, mcp

application = mcp.streamable_http_app(event_store=event_store, retry_interval=100)
asyncio.run(serve(application, "/mcp", 0, None))
