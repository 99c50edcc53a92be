"""Records in memory when and from where a credential was last used, and writes it in batches."""

import atexit
import logging
import os
import threading
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection
from django.db.models import Q

from nhi.models import Credential, Identity

log = logging.getLogger(__name__)

FLUSH_SECONDS = 15.0


@dataclass(frozen=True)
class CredentialUse:
    """When and from where a credential was used. The identity is None for a credential of a person."""

    at: datetime
    source: str
    identity_id: UUID | None


class LastUsedRecorder:
    """Holds the last use of each credential in this process until the next write to the database."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start empty. A forked child has no flush thread, and the parent writes the uses recorded before the fork."""
        self._uses: dict[UUID, CredentialUse] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def record(self, credential_id: UUID, use: CredentialUse) -> None:
        with self._lock:
            self._uses[credential_id] = use
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="last-used", daemon=True)
                self._thread.start()

    def flush(self) -> int:
        with self._lock:
            uses, self._uses = self._uses, {}
        for credential_id, use in uses.items():
            older = Q(last_used_at=None) | Q(last_used_at__lt=use.at)
            Credential.objects.filter(older, pk=credential_id).update(last_used_at=use.at, last_used_from=use.source)
        latest = {use.identity_id: use.at for use in sorted(uses.values(), key=lambda use: use.at) if use.identity_id}
        for identity_id, at in latest.items():
            older = Q(last_activity_at=None) | Q(last_activity_at__lt=at)
            Identity.objects.filter(older, pk=identity_id).update(last_activity_at=at)
        return len(uses)

    def _run(self) -> None:
        while True:
            self._wake.wait(FLUSH_SECONDS)
            try:
                self.flush()
            except Exception:
                # Catch everything: if this thread ended, nothing would be written until the process exits.
                log.warning("last uses could not be written; the next ones will be", exc_info=True)
            finally:
                connection.close()


recorder = LastUsedRecorder()
os.register_at_fork(after_in_child=recorder.restart)


def record_use(credential: Credential, *, at: datetime, source: str) -> None:
    recorder.record(credential.pk, CredentialUse(at, source, credential.identity_id))


@atexit.register
def _at_exit() -> None:
    try:
        recorder.flush()
    except Exception:
        # The process exits; the lost uses are at most a minute old.
        log.debug("last uses were lost at exit", exc_info=True)
