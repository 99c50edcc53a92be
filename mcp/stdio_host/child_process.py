"""A child process with its pipes and its process group."""

import asyncio
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from common.process import parent_death
from mcp.protocol.upstream_errors import UpstreamFault
from mcp.stdio_host import process_groups
from mcp.stdio_host.environment import PROCESS_LIMITS
from mcp.stdio_host.output import MAX_LINE_BYTES, LineSplitter, LineTooLong, StderrBuffer

#: Time limit of each step of an orderly stop.
STOP_STEP_SECONDS = 2.0
#: Time to read the last answer of a server that wrote it and exited.
LAST_OUTPUT_SECONDS = 0.25
#: Limit of the write buffer for a server that does not read its input.
MAX_UNREAD_BYTES = 32 << 20


class ServerProcess(asyncio.SubprocessProtocol):
    """A server's process. One callback receives each line of output; the other is called once, when the output ends."""

    def __init__(
        self, *, on_line: Callable[[bytes], None], on_end: Callable[[UpstreamFault], None], stderr: StderrBuffer
    ) -> None:
        self._on_line = on_line
        self._on_end = on_end
        self._stderr = stderr
        self._lines = LineSplitter()
        self._transport: asyncio.SubprocessTransport | None = None
        self._over = self._ending = False
        self._exited = asyncio.Event()
        #: Set when no more output will be read.
        self.output_closed = asyncio.Event()
        self.started_at = time.time()

    async def start(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> None:
        """Start the process as leader of its own session. The kernel kills it when this thread ends."""
        await asyncio.get_running_loop().subprocess_exec(
            lambda: self,
            *parent_death.build_command([*argv], rules=PROCESS_LIMITS),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._transport.get_pid() or 0 if self._transport else 0

    @property
    def is_over(self) -> bool:
        """Whether the process takes no more requests. Answers to earlier ones may still arrive."""
        return self._over or self._ending

    def write(self, line: bytes) -> None:
        pipe = self._pipe(0)
        if self.is_over or pipe is None or pipe.is_closing():
            raise UpstreamFault("closed", f"The server's process {self._describe_exit()}.", sent=False)
        if pipe.get_write_buffer_size() + len(line) > MAX_UNREAD_BYTES:
            fault = UpstreamFault(
                "closed", "The server stopped reading what it is sent, and was ended for it.", sent=False
            )
            self._fail(fault)
            raise fault
        pipe.write(line + b"\n")

    async def stop(self, *, at_once: bool = False) -> None:
        """Close standard input, send SIGTERM, send SIGKILL. Never wait for pipes: a descendant may hold them open."""
        self._over = True
        self.output_closed.set()
        if self._transport is None:
            return
        if (pipe := self._pipe(0)) is not None:
            pipe.close()
        group = self.pid
        for signal_number in [signal.SIGKILL] if at_once else [signal.SIGTERM, signal.SIGKILL]:
            if not at_once and await self._wait_until_gone(group):
                break
            process_groups.signal_group(group, signal_number)
        await self._wait_until_gone(group)
        self._transport.close()

    async def _wait_until_gone(self, group: int) -> bool:
        """Return whether the leader and all processes of its group end in time."""
        deadline = time.monotonic() + STOP_STEP_SECONDS
        while not self._exited.is_set() or process_groups.is_alive(group):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.02)
        return True

    def _pipe(self, fd: int) -> asyncio.WriteTransport | None:
        return cast("asyncio.WriteTransport | None", self._transport and self._transport.get_pipe_transport(fd))

    def _fail(self, fault: UpstreamFault) -> None:
        if not self._over:
            self._over = True
            self.output_closed.set()
            self._on_end(fault)

    def _describe_exit(self) -> str:
        code = self._transport.get_returncode() if self._transport else None
        if code is None:
            return "closed its standard input or output"
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def _report_end(self) -> None:
        self._fail(UpstreamFault("closed", f"The server's process {self._describe_exit()}.", sent=True))

    # Callbacks of asyncio.SubprocessProtocol:

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr.feed(data)
        elif not self._over:
            try:
                for line in self._lines.feed(data):
                    self._on_line(line)
            except LineTooLong:
                detail = f"The server wrote a line of more than {MAX_LINE_BYTES >> 20} MiB and was ended for it."
                self._fail(UpstreamFault("too_large", detail, sent=True))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio names it
        if fd != 2:
            # The more informative exit code may follow in a moment.
            self._end_soon()

    def process_exited(self) -> None:
        self._exited.set()
        self._end_soon()

    def _end_soon(self) -> None:
        self._ending = True
        asyncio.get_running_loop().call_later(LAST_OUTPUT_SECONDS, self._report_end)
