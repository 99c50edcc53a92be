"""What holds of every path of tasks: a token that was narrowed to some tools sends, and looks at nothing."""

from typing import ClassVar

from a2a.operations import visits
from nhi.api.views import ApiView
from supervisor.access import Caller


class TasksView(ApiView):
    #: Verbs that such a token may use all the same: what it may send, a decision says.
    narrowed: ClassVar[frozenset[str]] = frozenset()

    def admit(self) -> None:
        if self.request.method not in self.narrowed:
            visits.require_whole(Caller(self.actor, self.caller.shown))
