"""Starts agents: the side of the runner."""

import asyncio
import errno
import os
import sys
from collections.abc import Collection
from contextlib import ExitStack, suppress

from supervisor.nursery.child import Child, OnOutput, OnUsage
from supervisor.nursery.doorway import Doorway
from supervisor.nursery.ends import Ends, passage
from supervisor.nursery.facts import Command, NotStarted
from supervisor.nursery.wire import Word

#: By the step that failed, with what of the command it was about.
SENTENCES = {
    "program": "{name} could not be started",
    "directory": "The directory {directory} could not be entered",
    "account": "The account {uid} could not be taken",
    "limits": "The limits {rules} could not be set",
}
OTHERWISE = "No process could be made for {name}"
HINTS = {errno.ENOEXEC: " A script names its interpreter in its first line, which begins with #!."}
#: How often a keeper is asked for, and how many seconds a program that does not answer has to be seen dead.
ATTEMPTS, MOURNING = 2, 0.2


class Nursery:
    """Belongs to one event loop. Its program starts with the first agent, and again should it have died."""

    def __init__(self, *, processors: Collection[int] = ()) -> None:
        """`processors`: those that agents may use, whatever this process keeps to; none: those that it may use then."""
        self._processors = processors
        self._doorway: Doorway | None = None
        self._children: set[Child] = set()

    async def spawn(self, command: Command, *, on_output: OnOutput, on_usage: OnUsage) -> Child:
        """Raises NotStarted, and then nothing runs. Whoever stops waiting for it stops what was started."""
        if sys.platform != "linux":
            raise NotStarted(errno.ENOSYS, "Agents run on Linux only: no other kernel keeps their processes together.")
        ends = await self._keeper(command)
        with ExitStack() as undo:
            undo.callback(ends.close)
            await ends.control.say(command.request())
            word = await ends.control.hear() or {}
            if "started" not in word:
                raise _not_started(command, word)
            undo.pop_all()
        child = Child(word["started"], ends, on_output=on_output, on_usage=on_usage)
        self._children.add(child)
        child.following.add_done_callback(lambda _: self._children.discard(child))
        return child

    async def close(self) -> None:
        """Kill everything and wait until it has gone."""
        for child in self._children:
            child.kill()
        await asyncio.gather(*(child.ended() for child in self._children))
        if self._doorway is not None:
            await self._doorway.close()

    async def _keeper(self, command: Command) -> Ends:
        """One that waits for its request. As long as none has that, another can be asked for and nothing runs twice."""
        word: Word = {}
        for _ in range(ATTEMPTS):
            try:
                doorway = self._open_doorway()
                with ExitStack() as undo:
                    ends = await _through(doorway, undo)
                    word = await ends.control.hear() or {}
                    if "here" in word:
                        undo.pop_all()
                        return ends
            except OSError as error:
                word = {"failed": error.errno}
            if word.get("failed", errno.EPIPE) != errno.EPIPE:
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(doorway.over.wait(), MOURNING)
        raise _not_started(command, word)

    def _open_doorway(self) -> Doorway:
        if self._doorway is None or self._doorway.over.is_set():
            self._doorway = Doorway(self._processors)
        return self._doorway


async def _through(doorway: Doorway, undo: ExitStack) -> Ends:
    """Hand one half of a new passage over; `undo` closes the other."""
    opened = passage()
    undo.callback(opened.ends.close)
    try:
        await doorway.hand(opened.others)
    finally:
        opened.close_others()
    return opened.ends


def _not_started(command: Command, word: Word) -> NotStarted:
    """No answer at all is what a program that may open no more descriptors gives."""
    number = word.get("failed", errno.EAGAIN)
    about = {**command.request(), "name": command.name or command.argv[0]}
    what = SENTENCES.get(word.get("what", ""), OTHERWISE).format(**about)
    return NotStarted(number, f"{what}: {os.strerror(number)}.{HINTS.get(number, '')}")
