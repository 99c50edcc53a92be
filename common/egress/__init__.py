"""The one way out: every request that Gatehouse makes of another machine goes through `session()`.

What people type is judged twice. `problem` and `check` answer whoever saves a URL; the session guards each request by
itself, also for callers who never asked. A name is resolved once, all its addresses are judged, and only those are
connected to; redirects, proxies, cookies and netrc are not followed, used, kept or read.

Whoever starts an event loop of their own ends it with `close()`.
"""

from common.egress.client import close_session, open_session, read_limited_body
from common.egress.resolver import check_url
from common.egress.urls import EgressBlocked, find_url_problem

__all__ = ["EgressBlocked", "check_url", "close_session", "find_url_problem", "open_session", "read_limited_body"]
