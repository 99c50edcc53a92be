"""Secrets of every kind that is promised to be found, made up, and texts that only look like some."""

import base64
import json

A, AA = "Zq7Kx2Lm9Pw4Rt6Yv8Bn3Cd5Fg1HjQsUeXiOkM", "Zq7Kx2Lm9Pw4Rt6Yv8Bn3Cd5Fg1HjQsUeXiOkMa0"


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


JWT = f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{_part({'sub': '1234567890', 'name': 'Jo'})}.{A}"
BODY = "\n".join((A + AA)[:64] for _ in range(12)) + "\nAb3="
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----"

#: Each with the part that must not be seen.
TOKENS: dict[str, tuple[str, str]] = {
    "aws access key": ("AKIAZQ7KX2LM9PW4RT6Y", "ZQ7KX2LM9PW4RT6Y"),
    "aws session key": ("ASIAZQ7KX2LM9PW4RT6Y", "ZQ7KX2LM9PW4RT6Y"),
    "aws secret, environment": (f"AWS_SECRET_ACCESS_KEY={A[:18]}/{A[:20]}/", A[:18]),
    "aws secret, file": (f"aws_secret_access_key = {A[:40]}", A[:38]),
    "aws secret, json": (f'{{"SecretAccessKey": "{A[:40]}"}}', A[:38]),
    "github": (f"ghp_{A[:36]}", A[:36]),
    "github oauth": (f"gho_{A[:36]}", A[:36]),
    "github server": (f"ghs_{A[:36]}", A[:36]),
    "github user": (f"ghu_{A[:36]}", A[:36]),
    "github refresh": (f"ghr_{A[:36]}", A[:36]),
    "github twice": (f"ghp_ghp_{A[:36]}", A[:36]),
    "github fine-grained": (f"github_pat_11ABCDEFG0{A[:12]}_{A}", A),
    "gitlab": (f"glpat-{A[:20]}", A[:20]),
    "slack bot": (f"xoxb-123456789012-1234567890123-{A[:24]}", A[:24]),
    "slack user": (f"xoxp-123456789012-123456789012-{A[:24]}", A[:24]),
    "slack refresh": (f"xoxe.xoxp-1-{A}", A),
    "slack webhook": (f"https://hooks.slack.com/services/T00000000/B00000000/{A[:24]}", A[:24]),
    "openai": (f"sk-{AA}{A[:6]}", AA),
    "openai, small letters": ("sk-abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrstuvwxyz0123456789"),
    "openai, hexadecimal": ("OPENAI key: sk-7c1f09be52d84ea3b6f0d92e8a41c573", "7c1f09be52d84ea3b6f0d92e8a41c573"),
    "openai project": (f"sk-proj-{AA}_{A}-{A}", AA),
    "anthropic": (f"sk-ant-api03-{AA}-{A}_{A}AA", AA),
    "google": (f"AIza{A[:35]}", A[:35]),
    "stripe": (f"sk_live_{A[:24]}", A[:24]),
    "stripe restricted": (f"rk_live_{A[:24]}", A[:24]),
    "jwt": (JWT, JWT.split(".")[2]),
    "webhook secret": (f"whsec_{A[:32]}", A[:32]),
    "ours": (f"nhi_agt_0123456789AbCdEf_{AA}{AA[:6]}", AA),
    "ours, short": (f"nhi_tok_{A}.{AA}0", AA),
    "bearer": (f"Bearer {A}", A),
    "basic": ("Basic dXNlcjpwYXNzd29yZDE=", "dXNlcjpwYXNzd29yZDE"),
    "postgres": ("postgresql://gatehouse:hunter2secret@127.0.0.1:5432/x", "hunter2secret"),
    "postgres, odd": ("postgresql://gatehouse:hunter2@secret,1@127.0.0.1:5432/x", "secret,1"),
    "postgres, no user": ("redis://:hunter2secret@localhost/0", "hunter2secret"),
    "postgres, words": ("host=db user=app password=correcthorse dbname=x", "correcthorse"),
    "sql server": ("Server=tcp:db,1433;User ID=app;Password=correcthorse;Encrypt=True", "correcthorse"),
    "azure": (f"AccountName=x;AccountKey={A}==;EndpointSuffix=core.windows.net", A),
    "environment": ("DB_PASSWORD=hunter2", "hunter2"),
    "query": (f"https://example.org/a?access_token={A}&b=1", A),
    "header": ("X-Api-Key: a1b2c3d4e5f6", "a1b2c3d4e5f6"),
    "json": ('{"user": "me", "password": "correct horse"}', "correct horse"),
    "json in json": ('{"text": "{\\"password\\": \\"correct \\\\\\"horse\\"}"}', "horse"),
    "json number": ('{"otp": 860213}', "860213"),
    "python": ("{'password': 'correct horse', 'a': 1}", "correct horse"),
    "pem": (PEM, BODY.split("\n")[3]),
    "pem, last line": (PEM, "Ab3="),
    "pem, escaped": (PEM.replace("\n", "\\n"), BODY.split("\n")[3]),
    "pem, escaped twice": (PEM.replace("\n", "\\\\n"), BODY.split("\n")[3]),
    "pem, on one line": (PEM.replace("\n", " "), "Ab3="),
    "pem, unfinished": (PEM[:400], PEM[300:400].split("\n")[-1]),
}  # fmt: skip

PLAIN = (
    "An ordinary sentence, with a full stop. And another one!",
    "basic housekeeping", "a bearer of news", "Basic understanding.", "bearer certificates expire",
    "the bearer of 12345678 shares", "see RFC 6750 for bearer tokens", "Reset your password: it has expired.",
    "The token is stale", "token: none given", "secret: see the vault", "password=None", "token=token",
    "f(secret=name)", "token = tokens[0]",
    "4f1c2a9e-7b3d-4c8e-9f0a-1b2c3d4e5f60", "9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "digest: sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "digest=9fceb02d0ae598e95dc970b74767f19372d61af8", "3.141592653589793", "1234567890123456", "-17", "1e300",
    "2026-11-18", "2026-11-18T14:02:10.977Z", "18/11/2026 14:02", "€ 1.299,00", "$1,299.00", "12:30:45",
    "/usr/local/lib/python3.11/site-packages/x.py", "C:\\new\\table\\report.txt", "~/.ssh/id_rsa.pub",
    "https://example.org/a:b@c", "https://example.org:8443/a?x=1&y=2#z", "http://127.0.0.1:8000/mcp",
    "mailto:a@b.example", "git@github.com:owner/name.git", "ssh://git@github.com/owner/name", "me@example.org",
    "https://registry.example/@scope/name", '{"a": "http://host:8080", "b": "x@y"}', "nhi_agent", "nhi_agt_",
    "max_tokens=4096", '{"max_tokens": 4096, "token_type": "bearer", "tokens": 3}', "token_type=bearer1",
    "ghp_short", "glpat-", "xoxb-", "sk-learn", "sk-learn-contrib",
    "sk-learn-contrib-2024-benchmarks-of-small-models", "sk-internationalisation-of-everything",
    "sk-1234567890-1234567890", "task-force-2024-budget-review-notes", "sk-toggleable__label-arrow",
    "disk-0123456789abcdef0123456789", "risk-Assessment-2024-For-The-Board", "AKIA is a prefix", "ASIAN MARKETS ROSE",
    "eyJ", "eyJhbGciOiJIUzI1NiJ9", "whsec_", "sk_live_", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA me@host",
    "def secretary(name: str) -> str: ...", "the tokenizer: bert1234", "passport: X1234567", "author: a1b2c3d4",
    "+49 30 1234567", "(555) 123-4567", "555-123-4567", "10.0.0.1", "2001:db8::1", "std::vector<int>", "v1.2.3.4",
    "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 40).decode(),
)  # fmt: skip
