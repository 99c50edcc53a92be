#!/usr/bin/env python3
"""A receiver of callbacks and of A2A's push notifications, which believes only what is signed with its secret.

    WEBHOOK_SECRET=whsec_… python3 examples/callbacks/receiver.py 8099

Send tasks with "callback_url": "http://127.0.0.1:8099/" and start Gatehouse with EGRESS_ALLOW=127.0.0.1:8099.
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar


def is_genuine(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    """Standard Webhooks 1.0: signed with the secret, and within the last five minutes."""
    sent_at = headers.get("webhook-timestamp", "")
    if not sent_at.isdecimal() or abs(time.time() - int(sent_at)) > 300:
        return False
    signed = f"{headers.get('webhook-id')}.{sent_at}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.digest(key_of(secret), signed, hashlib.sha256))
    given = headers.get("webhook-signature", "").encode().split()
    return any(hmac.compare_digest(expected, one) for one in given)


def key_of(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix("whsec_"), validate=True)


def read(told: Mapping[str, Any]) -> tuple[str, str, Any]:
    """Which task it is about, how that stands, and what was made or said."""
    if "task_id" in told:  # a callback
        return told["task_id"], told["state"], told.get("result")
    if "artifactUpdate" in told:
        made = told["artifactUpdate"]
        return made["taskId"], "artifact", made["artifact"]["parts"]
    if "statusUpdate" in told:
        status = told["statusUpdate"]["status"]
        return told["statusUpdate"]["taskId"], status["state"], status.get("message")
    task = told.get("task", told)  # A2A 0.3 tells the task alone
    return task["id"], task["status"]["state"], task.get("artifacts")


class Receiver(BaseHTTPRequestHandler):
    #: What is told may come more than once, always with the same id.
    seen: ClassVar[set[str]] = set()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not is_genuine(self.headers, body, os.environ["WEBHOOK_SECRET"]):
            self._answer(401)
            return
        if self.headers["webhook-id"] not in self.seen:
            try:
                print(*read(json.loads(body)), flush=True)
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                print(f"Not understood: {error!r}", file=sys.stderr, flush=True)
                self._answer(500)
                return
            # Only now: what could not be handled is told again.
            self.seen.add(self.headers["webhook-id"])
        self._answer(204)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()


def main() -> None:
    options = argparse.ArgumentParser(description="Receive callbacks and push notifications.")
    options.add_argument("port", type=int, help="where to wait for them; 0 takes any free port")
    port = options.parse_args().port
    try:
        has_key = bool(key_of(os.environ.get("WEBHOOK_SECRET", "")))
    except ValueError:
        has_key = False
    if not has_key:
        sys.exit("Set WEBHOOK_SECRET to the secret that Gatehouse showed, which begins with whsec_.")
    try:
        server = HTTPServer(("127.0.0.1", port), Receiver)
    except (OSError, OverflowError) as error:
        sys.exit(f"Port {port} cannot be used: {error}")
    print(f"Waiting for callbacks at http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # as shells say it
