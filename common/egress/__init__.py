"""Guarded outgoing HTTP: every request of Gatehouse to another machine goes through `open_session()`.

URLs are checked twice. `find_url_problem` and `check_url` check a URL when it is saved; the session checks each request
again, whether or not its URL was checked before. A host name is resolved once, all its addresses are checked, and only
these addresses are used. Redirects, proxies, cookies and netrc are not used.

Code that starts its own event loop must call `close_session()` before the loop ends.
"""

from common.egress.client import close_session, open_session, read_limited_body
from common.egress.resolver import check_url
from common.egress.urls import EgressBlocked, find_url_problem

__all__ = ["EgressBlocked", "check_url", "close_session", "find_url_problem", "open_session", "read_limited_body"]
