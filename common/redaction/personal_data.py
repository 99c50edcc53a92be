"""Finds e-mail addresses, telephone numbers and IP addresses."""

import ipaddress
import re
from collections.abc import Iterator

from common.redaction.masks import EMAIL, IP, PHONE, SecretSpan, make_span

EMAIL_LOCAL_PART = re.compile(r"[A-Za-z0-9._%+-]{1,64}+")
EMAIL_DOMAIN = re.compile(r"(?:[A-Za-z0-9-]{1,63}+\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9])")
#: International format, or North American format. Digits without separators are too ambiguous.
TELEPHONE = re.compile(
    r"\+[0-9](?:[ .()-]{0,2}+[0-9]){6,14}+(?![0-9])"
    r"|(?<![\w.+-])(?:\([0-9]{3}\) ?|[0-9]{3}[ .-])[0-9]{3}[ .-][0-9]{4}(?![\w-])"
)
IPV4 = re.compile(r"(?<![\w.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?!\.?\w)")
IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]{2,39}+(?:(?<=:)[0-9]{1,3}(?:\.[0-9]{1,3}){3})?+(?![\w:])")


def find_emails(text: str) -> Iterator[SecretSpan]:
    at = text.find("@")
    while at >= 0:
        local, domain = EMAIL_LOCAL_PART.match(text[max(0, at - 64) : at][::-1]), EMAIL_DOMAIN.match(text, at + 1)
        if local and domain:
            yield make_span(at - local.end(), domain.end(), mask=EMAIL)
        at = text.find("@", at + 1)


def find_phones(text: str) -> Iterator[SecretSpan]:
    for match in TELEPHONE.finditer(text):
        yield make_span(*match.span(), mask=PHONE)


def find_ip_addresses(text: str) -> Iterator[SecretSpan]:
    for pattern in (IPV4, IPV6):
        for match in pattern.finditer(text):
            if _is_ip_address(match[0]):
                yield make_span(*match.span(), mask=IP)


def _is_ip_address(text: str) -> bool:
    if ":" in text and (text.count(":") < 2 or text == "::"):
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
