"""Gatehouse's settings: one file, every value from the environment, with defaults that are safe to run."""

import os
from pathlib import Path
from urllib.parse import quote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from common import installation_keys, logs, version
from common.asgi import client_address
from config import environment as env
from config import oidc, openapi

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION = version.VERSION

# The database, its log and what processes write beside them are for this account alone, also in a directory that others
# may enter. Every process reads this file before it writes one.
os.umask(0o077)

# ── Where this installation keeps its things, and how it is reached ───────────────────────────────────────────────
DATA = env.directory("GATEHOUSE_DATA", BASE_DIR / ".data")
DEBUG = env.flag("DEBUG")
PORT = env.number("PORT", 8000, low=1, high=65535)
WEB_WORKERS = env.number("WEB_WORKERS", 2, low=1, high=64)
ONE_PROCESSOR = env.flag("ONE_PROCESSOR", default=True)
#: The next port, which cards name too; before the last one, as there is none after it.
GRPC_PORT = env.number("GRPC_PORT", PORT + 1 if PORT < 65535 else PORT - 1, low=1, high=65535)
if GRPC_PORT == PORT:
    raise ImproperlyConfigured(f"GRPC_PORT must be another than PORT; both are {PORT}.")
GRPC_TLS_CERTIFICATE, GRPC_TLS_KEY = env.file("GRPC_TLS_CERTIFICATE"), env.file("GRPC_TLS_KEY")
if (GRPC_TLS_CERTIFICATE is None) != (GRPC_TLS_KEY is None):
    raise ImproperlyConfigured("GRPC_TLS_CERTIFICATE and GRPC_TLS_KEY go together: give both or neither.")
#: The agent that the protocol's own test kit talks to; and whether it asks back where it would complete.
TCK_AGENT, TCK_INPUT_REQUIRED = env.flag("TCK_AGENT"), env.flag("TCK_INPUT_REQUIRED")
#: Which agent is meant by calls over gRPC that name none, and by who asks the house itself for a card.
USUAL_AGENT = env.text("USUAL_AGENT") or ("tck" if TCK_AGENT else "")
#: Where readiness looks for the gRPC server; `up` says where its own listens.
GRPC_PROBE = env.endpoints("GRPC_PROBE")
PUBLIC_URL = env.url("PUBLIC_URL", {"http", "https"}, f"http://127.0.0.1:{PORT}").rstrip("/")
SECURE = PUBLIC_URL.startswith("https://")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS") or [str(urlsplit(PUBLIC_URL).hostname), "localhost", "127.0.0.1", "[::1]"]
if "*" in ALLOWED_HOSTS and not DEBUG:
    raise ImproperlyConfigured("ALLOWED_HOSTS must name the hosts; * is for DEBUG only.")
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL] if SECURE else []
TRUSTED_PROXIES = env.number("TRUSTED_PROXIES", 0, low=0, high=10)
#: The gRPC port is often reached past the proxy of the web port, so it has a number of its own.
GRPC_TRUSTED_PROXIES = env.number("GRPC_TRUSTED_PROXIES", 0, low=0, high=10)
TRUSTED_PROXY_NETWORKS = env.networks("TRUSTED_PROXY_NETWORKS", client_address.DEFAULT_TRUSTED_NETWORKS)
#: The bearer token that /metrics asks for; empty: everybody who reaches the web port reads it.
METRICS_TOKEN = env.secret("METRICS_TOKEN", shortest=32)
REQUIRE_MFA = env.flag("REQUIRE_MFA")
EGRESS_ALLOW = env.endpoints("EGRESS_ALLOW")

# ── Keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────
KEYS = installation_keys.load(dict(os.environ), DATA, required=bool(env.text("DATABASE_URL")) and not DEBUG)
SECRET_KEY = KEYS.secret_key
#: Earlier values of SECRET_KEY: sessions of then go on, and record rows whose MACs hang on it stay verifiable.
SECRET_KEY_FALLBACKS = env.secrets("SECRET_KEY_FALLBACKS", shortest=installation_keys.MIN_SECRET_LENGTH)
TOKEN_PEPPER = KEYS.token_pepper
FIELD_KEYS = installation_keys.parse_key_ring("FIELD_KEYS", KEYS.field_keys)
SIGNING_KEYS = installation_keys.parse_key_ring("SIGNING_KEYS", KEYS.signing_keys)

# ── Applications ──────────────────────────────────────────────────────────────────────────────────────────────────
INSTALLED_APPS = [
    "config.apps.ConsoleConfig",
    "unfold.apps.BasicAppConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "csp",
    "config",
    "common",
    "nhi",
    "mcp",
    "supervisor",
    "a2a",
]
MIDDLEWARE = [
    "config.metrics.measured",
    "common.middleware.request_context",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "common.middleware.security_headers",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "nhi.web.middleware.ErrorPageMiddleware",
    "nhi.web.middleware.end_expired_session",
    "nhi.web.middleware.require_own_password",
    "nhi.web.middleware.require_second_factor",
    "nhi.web.middleware.enforce_read_only_auditors",
]
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
APPEND_SLASH = True
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# ── Data ──────────────────────────────────────────────────────────────────────────────────────────────────────────
DATABASES = {"default": env.database("DATABASE_URL", DATA / "gatehouse.sqlite3")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

# ── Broker and workers ────────────────────────────────────────────────────────────────────────────────────────────
OWN_BROKER = not env.text("BROKER_URL")
VALKEY_SOCKET = env.socket(DATA / "valkey.sock") if OWN_BROKER else None
BROKER_URL = env.url(
    "BROKER_URL", {"redis", "rediss", "redis+socket", "amqp", "amqps"}, f"redis+socket://{quote(str(VALKEY_SOCKET))}"
)
REDIS_URL = env.url("REDIS_URL", {"redis", "rediss", "unix"}, "")

# ── Programs that may run here ────────────────────────────────────────────────────────────────────────────────────
EXECUTABLE_ALLOWLIST = env.file("EXECUTABLE_ALLOWLIST")
STDIO_SOCKET = env.socket(DATA / "stdio.sock")
#: Below which directories a run may work when its agent asks for one.
WORKDIR_ALLOWLIST = env.directories("WORKDIR_ALLOWLIST")
#: As whom they run; None for this account itself, which only root can leave.
RUN_AS = env.account("RUN_AS", "nobody")
RUNNER_CAPACITY = env.number("RUNNER_CAPACITY", 32, low=1, high=1000)
# No new run is taken while every host that runs agents is past one of these.
RUN_MAX_MEMORY_PERCENT = env.number("RUN_MAX_MEMORY_PERCENT", 92, low=1, high=100)
RUN_MIN_DISK_MB = env.number("RUN_MIN_DISK_MB", 256, low=0, high=100_000_000)
#: For each processor, over the last minute.
RUN_MAX_LOAD = env.number("RUN_MAX_LOAD", 20, low=1, high=100_000)
#: The largest file that a run may write.
RUN_MAX_FILE_MB = env.number("RUN_MAX_FILE_MB", 4096, low=1, high=100_000_000)
#: Seconds by which schedules are ahead of the clock: for trials of a clock change or an outage, and nothing else.
SCHEDULE_CLOCK_SHIFT = env.number("SCHEDULE_CLOCK_SHIFT", 0, low=-315_360_000, high=315_360_000)

# ── Gateway ───────────────────────────────────────────────────────────────────────────────────────────────────────
MCP_REFRESH_SECONDS = env.number("MCP_REFRESH_SECONDS", 60, low=1, high=86400)

# ── Tasks between agents ──────────────────────────────────────────────────────────────────────────────────────────
#: Multiplies the waits between attempts at a callback; neither what receivers ask for nor a time limit.
WEBHOOK_TIME_SCALE = env.factor("WEBHOOK_TIME_SCALE", 1, high=10)

# ── People ────────────────────────────────────────────────────────────────────────────────────────────────────────
AUTH_USER_MODEL = "nhi.User"
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
# One hasher: with two, the time that a refusal takes would tell which one a person's password was stored with.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
LOGIN_URL = "/admin/login/"
LOGIN_REDIRECT_URL = "/admin/"
LOGOUT_REDIRECT_URL = "/admin/login/"
OIDC = oidc.from_environment()
ACCOUNT_ADAPTER = "nhi.web.allauth_adapters.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if SECURE else "http"
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_UNIQUE_EMAIL = False
# Ours is in the database (nhi.people.sign_in_throttle): allauth's counters live in one process, in its cache.
ACCOUNT_RATE_LIMITS = MFA_RATE_LIMITS = False
MFA_ADAPTER = "nhi.web.allauth_adapters.FactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_TOTP_ISSUER = "Gatehouse"
MFA_TOTP_TOLERANCE = 1
MFA_FORMS = {
    "authenticate": "nhi.web.mfa_forms.CodeForm",
    "reauthenticate": "nhi.web.mfa_forms.ConfirmCodeForm",
    "activate_totp": "nhi.web.mfa_forms.AddTotpForm",
}
SOCIALACCOUNT_ADAPTER = "nhi.web.allauth_adapters.SingleSignOnAdapter"
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [OIDC.app]}} if OIDC else {}

# ── The browser ───────────────────────────────────────────────────────────────────────────────────────────────────
SESSION_COOKIE_NAME = "__Host-gatehouse" if SECURE else "gatehouse"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_AGE = 8 * 3600
SESSION_IDLE_SECONDS = 30 * 60
CSRF_FAILURE_VIEW = "nhi.web.error_responses.csrf_failure"
CSRF_COOKIE_NAME = "__Host-csrftoken" if SECURE else "csrftoken"
# Whoever ends TLS redirects; here it would turn the probes of a private network away.
SECURE_SSL_REDIRECT = False
# Whether the other hosts below this one have TLS is for those who run them to know: HSTS_SUBDOMAINS says it.
SILENCED_SYSTEM_CHECKS = ["security.W008", "security.W005", "security.W021"]
SECURE_HSTS_SECONDS = 31536000 if SECURE else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = env.flag("HSTS_SUBDOMAINS") and SECURE
SECURE_REFERRER_POLICY = "same-origin"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE and TRUSTED_PROXIES else None
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "object-src": ["'none'"],
        "base-uri": ["'self'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
    }
}

# ── Words, time, static files ─────────────────────────────────────────────────────────────────────────────────────
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = BASE_DIR / "static-collected"
# Whoever serves them may be another account than the one that collected them.
FILE_UPLOAD_PERMISSIONS, FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o644, 0o755
WHITENOISE_USE_FINDERS = not STATIC_ROOT.exists()
WHITENOISE_AUTOREFRESH = False
# Django measures and logs statements with DEBUG only.
LOGGING = logs.build_logging_configuration("DEBUG" if DEBUG else "INFO", log_sql=env.flag("LOG_SQL"))
LOGGING_CONFIG = "logging.config.dictConfig"

# ── REST ──────────────────────────────────────────────────────────────────────────────────────────────────────────
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "nhi.api.authentication.BearerAuthentication",
        "nhi.api.authentication.ConsoleSession",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["common.api.parsers.StrictJSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "common.api.negotiation.OnlyOne",
    "DEFAULT_SCHEMA_CLASS": "common.api.schema.GatehouseSchema",
    "EXCEPTION_HANDLER": "common.api.errors.handle",
    "UNAUTHENTICATED_USER": None,
    "DATETIME_FORMAT": "%Y-%m-%dT%H:%M:%S.%fZ",
}
SPECTACULAR_SETTINGS = openapi.settings(version=VERSION)
