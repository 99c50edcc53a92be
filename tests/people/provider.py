"""A tiny OpenID Connect provider that speaks real HTTP on loopback: one person at a time, and faults on demand."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Provider:
    url: str = ""
    client_id: str = "gatehouse"
    client_secret: str = "a client secret of tests"
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "u-1", "preferred_username": "nora"})
    #: What is wrong with it: "away", "nonsense", "audience", "issuer", "expired", "denied".
    fault: str = ""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/jwks",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser goes next. The person has already said yes."""
        self.asked.append(query)
        if self.fault == "denied":
            return f"{query['redirect_uri']}?{urlencode({'error': 'access_denied', 'state': query['state']})}"
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form: dict[str, str]) -> dict[str, Any] | None:
        query = self.codes.pop(form.get("code", ""), None)
        if query is None or form.get("client_secret") != self.client_secret:
            return None
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        if challenge.decode() != query["code_challenge"] or form["redirect_uri"] != query["redirect_uri"]:
            return None
        return {
            "access_token": "an access token",
            "token_type": "Bearer",
            "expires_in": 60,
            "id_token": self.id_token(),
        }

    def id_token(self) -> str:
        now = int(time.time())
        body = {
            "iss": "https://other.example" if self.fault == "issuer" else self.url,
            "aud": "somebody-else" if self.fault == "audience" else self.client_id,
            "iat": now - 600,
            "exp": now - 300 if self.fault == "expired" else now + 300,
            **self.claims,
        }
        return jwt.encode(body, KEY, algorithm="RS256", headers={"kid": "k1"})


class Handler(BaseHTTPRequestHandler):
    provider: Provider

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, self._flat(urlsplit(self.path).query)
        if self.provider.fault == "nonsense":
            self._send(200, b"<html>not what you asked for</html>")
        elif path == "/.well-known/openid-configuration":
            self._send(200, self.provider.metadata())
        elif path == "/authorize":
            self.send_response(302)
            self.send_header("Location", self.provider.authorize(query))
            self.end_headers()
        elif path == "/userinfo":
            self._send(200, self.provider.claims)
        else:
            self._send(404, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        answer = self.provider.token(self._flat(body))
        self._send(200 if answer else 400, answer or {"error": "invalid_grant"})

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def _send(self, status: int, body: Any) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    @staticmethod
    def _flat(query: str) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(query).items()}


@contextmanager
def running() -> Iterator[Provider]:
    provider = Provider()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"provider": provider}))
    provider.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
