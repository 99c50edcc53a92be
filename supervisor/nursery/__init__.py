"""CLI agents as child processes that neither outlive nor escape their run.

One small program per runner, the nursery, forks a keeper for each run; the keeper starts the agent and is where all of
the run's orphans go, so that it can count, end and kill everything the agent ever starts. Whoever of the three dies
takes what hung on it along. Nothing here knows of Django.
"""

from supervisor.nursery.child import Child
from supervisor.nursery.facts import MEGABYTE, Command, Ending, Limits, NotStarted, Usage
from supervisor.nursery.nursery import Nursery

__all__ = ["MEGABYTE", "Child", "Command", "Ending", "Limits", "NotStarted", "Nursery", "Usage"]
