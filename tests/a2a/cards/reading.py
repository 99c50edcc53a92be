"""Cards as a client reads them, and what a client does to trust one."""

import base64
import json
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from django.test import Client

from common import canonical_json

Card = dict[str, Any]


def path_of(name: str, file: str = "agent-card.json") -> str:
    return f"/agents/{name}/.well-known/{file}"


def read(name: str = "writer", version: str = "", token: str = "", **headers: str) -> Any:
    said = {"A2A-Version": version} if version else {}
    shown = {"Authorization": f"Bearer {token}"} if token else {}
    return Client().get(path_of(name), headers={**said, **shown, **headers})


def keys() -> dict[str, Card]:
    return {key["kid"]: key for key in Client().get("/.well-known/jwks.json").json()["keys"]}


def fitting(card: Card, known: dict[str, Card]) -> list[str]:
    """The ids of the keys whose signatures fit the card as it came."""
    plain = canonical_json.encode({name: value for name, value in card.items() if name != "signatures"})
    return [
        header["kid"]
        for entry in card.get("signatures", [])
        if (header := json.loads(decoded(entry["protected"])))
        and fits(f"{entry['protected']}.{encoded(plain)}", entry["signature"], known.get(header["kid"]))
    ]


def fits(signed: str, signature: str, key: Card | None) -> bool:
    if key is None:
        return False
    x, y = (int.from_bytes(decoded(key[part])) for part in "xy")
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    raw = decoded(signature)
    pair = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
    try:
        public.verify(pair, signed.encode(), ec.ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
