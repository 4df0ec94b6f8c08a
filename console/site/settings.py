"""Settings of the Django project. Everything that differs between places comes from the environment.

Addresses: DATABASE_URL, ESCAPEMENT_DATABASE_OWNER_URL, ESCAPEMENT_SPARK_DATABASE_URL, ESCAPEMENT_DATABASE_READER,
    REDIS_URL, ESCAPEMENT_NAMESRV, ESCAPEMENT_CLUSTERS, ESCAPEMENT_CLUSTER_*,
    ESCAPEMENT_WEB_HOST, ESCAPEMENT_WEB_PORT and what else begins with ESCAPEMENT_WEB_, ESCAPEMENT_HOSTS,
    ESCAPEMENT_TRUSTED_PROXIES.
Broker: ESCAPEMENT_BROKER (its name), ESCAPEMENT_BROKERS, ESCAPEMENT_CLUSTER, ESCAPEMENT_BROKER_HOST,
    ESCAPEMENT_BROKER_PORT,
    ESCAPEMENT_NAMESRV_PORT, ESCAPEMENT_NAMESRV_PORTS, ESCAPEMENT_REGISTER_AT,
    ESCAPEMENT_STORE, ESCAPEMENT_FLUSH, ESCAPEMENT_BROKER_ADVERTISE, ESCAPEMENT_TIMER_*.
Access: ESCAPEMENT_ACCESS, ESCAPEMENT_ACCESS_KEY, ESCAPEMENT_SECRET_KEY, ESCAPEMENT_TLS and what begins with it.
Alerts: ESCAPEMENT_ALERTS_S, ESCAPEMENT_ALERT_ORIGINS, ESCAPEMENT_MAIL and what begins with it.
Second person: ESCAPEMENT_SECOND_PERSON_ABOVE and what begins so. Sign-on: ESCAPEMENT_OIDC_ISSUER and what begins so.
Rest: ESCAPEMENT_VAR, ESCAPEMENT_ENV, ESCAPEMENT_DEBUG, ESCAPEMENT_HTTPS, ESCAPEMENT_PLAINTEXT,
    SECRET_KEY, SECRET_KEY_FALLBACKS.
"""

from __future__ import annotations

import os
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF
from django.utils.translation import gettext_lazy as _

from broker import log_lines
from broker.mirror.entries import further_clusters
from console.run.addresses import (
    client_access,
    database_settings,
    database_url,
    owner_url,
    reachable_host,
    redis_url,
    server_certificates,
    spark_url,
    var_directory,
    web_certificates,
)
from console.run.private_files import kept_secret
from console.site.checks import check_provider, groups_of, trusted_proxies

ROOT = Path(__file__).resolve().parents[2]
VAR = var_directory()

# --- identity ---------------------------------------------------------------------------------------------------------
ESCAPEMENT_ENV = os.environ.get("ESCAPEMENT_ENV", "demo")
SECRET_KEY = os.environ.get("SECRET_KEY") or kept_secret(VAR / "secret-key")
# Keys before it: what was signed or sealed with one of them is read still.
SECRET_KEY_FALLBACKS = [each for each in os.environ.get("SECRET_KEY_FALLBACKS", "").split(",") if each]
DEBUG = os.environ.get("ESCAPEMENT_DEBUG") == "1"

# --- the broker -------------------------------------------------------------------------------------------------------
BROKER_HOST = os.environ.get("ESCAPEMENT_BROKER_HOST", "127.0.0.1")
BROKER_PORT = int(os.environ.get("ESCAPEMENT_BROKER_PORT", "10911"))
# Whether the port two below is served, too: RocketMQ's VIP channel, which old clients and slaves use.
BROKER_VIP = os.environ.get("ESCAPEMENT_VIP", "1") == "1"
BROKER_SELF_TEST = os.environ.get("ESCAPEMENT_SELF_TEST", "1") == "1"
NAMESRV_PORT = int(os.environ.get("ESCAPEMENT_NAMESRV_PORT", "9876"))
# Name services by themselves that `make run` starts, and the name servers where the broker registers beside its own.
NAMESRV_PORTS = [int(each) for each in os.environ.get("ESCAPEMENT_NAMESRV_PORTS", "").split(",") if each]
BROKER_REGISTER_AT = os.environ.get(
    "ESCAPEMENT_REGISTER_AT", ";".join(f"{reachable_host(BROKER_HOST)}:{port}" for port in NAMESRV_PORTS)
)
# The brokers that `make run` starts: the first at the ports and the store below, each other one 10 ports further (its
# own name service 1), with a store named after it.
BROKER_NAMES = [
    each
    for each in (os.environ.get("ESCAPEMENT_BROKERS") or os.environ.get("ESCAPEMENT_BROKER", "")).split(",")
    if each
] or ["broker-a"]
BROKER_NAME = BROKER_NAMES[0]
BROKER_CLUSTER = os.environ.get("ESCAPEMENT_CLUSTER", "DefaultCluster")
BROKER_STORE = Path(os.environ.get("ESCAPEMENT_STORE") or VAR / "store")
OTHER_STORES = {name: BROKER_STORE.with_name(f"{BROKER_STORE.name}-{name}") for name in BROKER_NAMES[1:]}
BROKER_FLUSH = os.environ.get("ESCAPEMENT_FLUSH", "sync")
SIMULATED_CLOCK = os.environ.get("ESCAPEMENT_SIMULATED_CLOCK", "")
# What senders of timers may ask for: how far ahead, how many in all, how many in one second (0: any number).
BROKER_TIMER_DAYS = int(os.environ.get("ESCAPEMENT_TIMER_DAYS", "3653"))
BROKER_TIMER_PENDING = int(os.environ.get("ESCAPEMENT_TIMER_PENDING", "100000000"))
BROKER_TIMER_PER_SLOT = int(os.environ.get("ESCAPEMENT_TIMER_PER_SLOT", "0"))
# Whether a consumer's group is made when it comes first; what one pull is answered with at most.
BROKER_AUTO_CREATE_GROUPS = os.environ.get("ESCAPEMENT_AUTO_CREATE_GROUPS", "1") == "1"
BROKER_PULL_MESSAGES = int(os.environ.get("ESCAPEMENT_PULL_MESSAGES", "32"))
BROKER_PULL_KB = int(os.environ.get("ESCAPEMENT_PULL_KB", "256"))
# The address that clients are told; where the broker listens on all addresses, one of them has to be named.
BROKER_ADVERTISE = os.environ.get("ESCAPEMENT_BROKER_ADVERTISE") or BROKER_HOST
# The address that console, REST and jobs ask: our own broker, or the name service of an Apache RocketMQ cluster.
ESCAPEMENT_NAMESRV = os.environ.get("ESCAPEMENT_NAMESRV") or (
    BROKER_REGISTER_AT if len(BROKER_NAMES) > 1 else f"{reachable_host(BROKER_HOST)}:{NAMESRV_PORT}"
)
# Further clusters: entry -> name servers; "" is the entry of ESCAPEMENT_NAMESRV.
ESCAPEMENT_CLUSTERS = further_clusters(os.environ.get("ESCAPEMENT_CLUSTERS", ""))

# --- who may what at the broker ---------------------------------------------------------------------------------------
# Off on loopback; the broker does not start elsewhere without it.
BROKER_ACCESS = os.environ.get("ESCAPEMENT_ACCESS") == "1"
BROKER_OPEN_ROUTES = os.environ.get("ESCAPEMENT_OPEN_ROUTES") == "1"
# The broker's own user, who may do everything: with it console, REST, mirror and jobs sign.
ACCESS_KEY = os.environ.get("ESCAPEMENT_ACCESS_KEY") or "escapement"
ACCESS_SECRET = os.environ.get("ESCAPEMENT_SECRET_KEY") or (kept_secret(VAR / "broker-secret") if BROKER_ACCESS else "")
# Certificates that the broker shows; None: no TLS.
BROKER_TLS = server_certificates(os.environ)
#: Who brings it is told /metrics of broker and console; without it only this machine is.
METRICS_TOKEN = os.environ.get("ESCAPEMENT_METRICS_TOKEN", "")
# How this project's own clients speak with the brokers of ESCAPEMENT_NAMESRV: keyword arguments of broker.client.
ESCAPEMENT_CLIENT = client_access(os.environ, ACCESS_KEY, ACCESS_SECRET)

# --- transactions -----------------------------------------------------------------------------------------------------
# Groups whose halves this project sends with transactional(); `manage.py checkback` answers for them.
ESCAPEMENT_PRODUCER_GROUPS = [
    each for each in os.environ.get("ESCAPEMENT_PRODUCER_GROUPS", "escapement").split(",") if each
]
# Check-back by HTTP: which origins may be registered, and which special networks their names may lead to.
CHECKBACK_ORIGINS = [each for each in os.environ.get("ESCAPEMENT_CHECKBACK_ORIGINS", "").split(",") if each]
CHECKBACK_NETWORKS = [each for each in os.environ.get("ESCAPEMENT_CHECKBACK_NETWORKS", "").split(",") if each]
CHECKBACK_TIMEOUT_S = float(os.environ.get("ESCAPEMENT_CHECKBACK_TIMEOUT_S", "5"))
CHECKBACK_ANSWER_BYTES = int(os.environ.get("ESCAPEMENT_CHECKBACK_ANSWER_BYTES", "4096"))

# --- alerts -----------------------------------------------------------------------------------------------------------
# How often the rules are judged, 0: never; which origins webhooks may have; which server takes mail, and from whom.
ALERTS_INTERVAL_S = float(os.environ.get("ESCAPEMENT_ALERTS_S", "30"))
ALERT_ORIGINS = [each for each in os.environ.get("ESCAPEMENT_ALERT_ORIGINS", "").split(",") if each]
MAIL_IS_SET = bool(os.environ.get("ESCAPEMENT_MAIL"))
_mail = (os.environ.get("ESCAPEMENT_MAIL") or "localhost:25").rpartition(":")
EMAIL_HOST, EMAIL_PORT = _mail[0], int(_mail[2])
EMAIL_HOST_USER = os.environ.get("ESCAPEMENT_MAIL_USER", "")
EMAIL_HOST_PASSWORD = os.environ.get("ESCAPEMENT_MAIL_PASSWORD", "")
EMAIL_USE_TLS = os.environ.get("ESCAPEMENT_MAIL_TLS") == "1"
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = os.environ.get("ESCAPEMENT_MAIL_FROM", "escapement@localhost")

# --- a second person --------------------------------------------------------------------------------------------------
# Operations on more items than this wait for another user (0: none does); of single kinds more than their own number.
SECOND_PERSON_ABOVE = int(os.environ.get("ESCAPEMENT_SECOND_PERSON_ABOVE", "0"))
SECOND_PERSON_KINDS = {
    kind.strip(): int(limit)
    for kind, _equals, limit in (
        each.partition("=") for each in os.environ.get("ESCAPEMENT_SECOND_PERSON_KINDS", "").split(",") if each
    )
}
SECOND_PERSON_HOURS = float(os.environ.get("ESCAPEMENT_SECOND_PERSON_HOURS", "24"))

# --- timers that are moved to another broker --------------------------------------------------------------------------
# What is due sooner is left to its broker; longer than it takes until somebody goes on after a runner was killed.
MOVE_LEAVES_S = float(os.environ.get("ESCAPEMENT_MOVE_LEAVES_S", "120"))

# --- Django -----------------------------------------------------------------------------------------------------------
WEB_HOST = os.environ.get("ESCAPEMENT_WEB_HOST", "127.0.0.1")
WEB_PORT = int(os.environ.get("ESCAPEMENT_WEB_PORT", "8000"))
# The console's own certificate, None: it speaks plain HTTP; and a port that leads browsers to the one with TLS.
WEB_TLS = web_certificates(os.environ)
WEB_REDIRECT_PORT = int(os.environ.get("ESCAPEMENT_WEB_REDIRECT_PORT", "0"))
WEB_CONNECTIONS = int(os.environ.get("ESCAPEMENT_WEB_CONNECTIONS", "2000"))
# Whose X-Forwarded-For and X-Forwarded-Proto are believed: addresses or networks of reverse proxies, none by default.
TRUSTED_PROXIES = trusted_proxies(os.environ.get("ESCAPEMENT_TRUSTED_PROXIES", ""))
# Whether broker, console and REST may speak without TLS where other machines hear them.
PLAINTEXT = os.environ.get("ESCAPEMENT_PLAINTEXT") == "1"
PAGE_THREADS = 8
# The largest body of a page's form; nothing is uploaded.
DATA_UPLOAD_MAX_MEMORY_SIZE = 2_621_440
ALLOWED_HOSTS = (os.environ.get("ESCAPEMENT_HOSTS") or "localhost,127.0.0.1,[::1]").split(",")
INSTALLED_APPS = [
    "broker.mirror",
    "broker.outbox",
    "broker.handlers",
    "broker.tasks",
    "console.apps.ConsoleConfig",
    "axes",
    "channels",
    "csp",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "console.site.slow_requests.InThread",
    "console.site.chosen.ChosenBroker",
    "django.middleware.security.SecurityMiddleware",
    "console.security.headers.Headers",
    "console.site.compression.CompressedFiles",
    # pages; it pads what it compresses, so that its length tells nothing of the secrets in it
    "django.middleware.gzip.GZipMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "console.ui.preferences.ReadersZone",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "console.security.gate.Gate",
    "console.security.presence.Presence",
    "console.ui.saved_view_pages.OpensWith",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "console.site.urls"
#: pages that change in place
LIVE_PAGES = "console.urls.live_pages"
WSGI_APPLICATION = "console.site.wsgi.application"
ASGI_APPLICATION = "console.site.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    ["console.site.compression.Loader", "django.template.loaders.app_directories.Loader"],
                )
            ],
            "builtins": ["console.templatetags.visible"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.i18n",
                "console.ui.frame.page",
            ],
        },
    },
]

# --- servers ----------------------------------------------------------------------------------------------------------
DATABASES = {"default": database_settings(database_url())}
# Who owns the tables and changes them, where that is another role; who writes dashboards; which role people read as.
if owner_url():
    DATABASES["owner"] = database_settings(owner_url()) | {"TEST": {"MIRROR": "default"}}
SPARK_DATABASE = database_settings(spark_url()) if spark_url() else None
DATABASE_READER = os.environ.get("ESCAPEMENT_DATABASE_READER", "")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
REDIS_URL = redis_url()
#: The server of Redisson's delayed queues, which of them may be touched (names or patterns), and whether only to look.
REDISSON_URL = os.environ.get("ESCAPEMENT_REDISSON_URL") or REDIS_URL
REDISSON_QUEUES = [name for name in os.environ.get("ESCAPEMENT_REDISSON_QUEUES", "*").split(",") if name]
REDISSON_READ_ONLY = os.environ.get("ESCAPEMENT_REDISSON_READ_ONLY") == "1"
#: The layer waits 5 s for a message in one command; the client's own patience, 5 s too, must be longer than that.
CHANNEL_LAYER_PATIENCE_S = 15
CHANNEL_LAYERS: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {"hosts": [{"address": REDIS_URL, "socket_timeout": CHANNEL_LAYER_PATIENCE_S}]},
    },
}

# --- Celery -----------------------------------------------------------------------------------------------------------
CELERY_BROKER_URL = REDIS_URL
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_RESULT_SERIALIZER = "json"
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "jobs"
CELERY_TIMEZONE = "UTC"
# A worker that hosts the engine must outlive any outage of the task broker.
CELERY_BROKER_CONNECTION_RETRY = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_keepalive": True, "health_check_interval": 25}
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
# Celery would close all connections to the database around each task, also those of a task that looks every five
# seconds; console/site/celery.py has Django's own rule followed.
CELERY_DB_REUSE_MAX = 2**62

# --- dashboards -------------------------------------------------------------------------------------------------------
DASHBOARDS_INTERVAL_S = float(os.environ.get("ESCAPEMENT_DASHBOARDS_S", "300"))
DASHBOARDS_ENGINE = os.environ.get("ESCAPEMENT_DASHBOARDS_ENGINE", "auto")  # spark/engines.py
DASHBOARDS_SPARK_FROM_MB = int(os.environ.get("ESCAPEMENT_DASHBOARDS_SPARK_FROM_MB", "8192"))
DASHBOARDS_KEEP = os.environ.get("ESCAPEMENT_DASHBOARDS_KEEP", "1") == "1"  # spark/kept.py
DASHBOARDS_CORES = int(os.environ.get("ESCAPEMENT_DASHBOARDS_CORES", "0"))  # spark/priority.py
DASHBOARDS_MEMORY_MB = int(os.environ.get("ESCAPEMENT_DASHBOARDS_MEMORY_MB", "896"))
DASHBOARDS_SCRATCH = os.environ.get("ESCAPEMENT_DASHBOARDS_SCRATCH", "")
# --- archive of closed segments (spark/archive/) ----------------------------------------------------------------------
ARCHIVE_DAYS = float(os.environ.get("ESCAPEMENT_ARCHIVE_DAYS", "0"))  # 0: nothing is archived
ARCHIVE_DIR = Path(os.environ.get("ESCAPEMENT_ARCHIVE_DIR") or VAR / "archive")
ARCHIVE_BODIES = os.environ.get("ESCAPEMENT_ARCHIVE_BODIES") == "1"
ARCHIVE_INTERVAL_S = 300.0
CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {}


def _each(task: str, seconds: float) -> dict[str, Any]:
    """Return a turn of the timetable; one that did not run before the next is due runs no more."""
    return {"task": task, "schedule": seconds, "options": {"expires": seconds}}


if DASHBOARDS_INTERVAL_S > 0 and find_spec("pyspark") is not None:
    CELERY_BEAT_SCHEDULE["dashboards"] = _each("console.renew_dashboards", DASHBOARDS_INTERVAL_S)

if ARCHIVE_DAYS > 0 and find_spec("duckdb") is not None:
    CELERY_BEAT_SCHEDULE["archive"] = _each("console.keep_archive", ARCHIVE_INTERVAL_S)

if ALERTS_INTERVAL_S > 0:
    CELERY_BEAT_SCHEDULE["alerts"] = _each("console.watch_alerts", ALERTS_INTERVAL_S)
    if ALERT_ORIGINS:
        CELERY_BEAT_SCHEDULE["webhooks"] = _each("console.tell_webhooks", 5.0)

# --- snapshots --------------------------------------------------------------------------------------------------------
SNAPSHOT_EVERY_S = float(os.environ.get("ESCAPEMENT_SNAPSHOT_EVERY_S", "60"))
SNAPSHOT_KEEP_H = float(os.environ.get("ESCAPEMENT_SNAPSHOT_KEEP_H", "24"))
SNAPSHOT_KEEP_DAYS = float(os.environ.get("ESCAPEMENT_SNAPSHOT_KEEP_DAYS", "30"))
if SNAPSHOT_EVERY_S > 0:
    CELERY_BEAT_SCHEDULE["snapshots"] = _each("console.take_snapshot", SNAPSHOT_EVERY_S)

# --- operations -------------------------------------------------------------------------------------------------------
OPERATIONS_KEEP_DAYS = float(os.environ.get("ESCAPEMENT_OPERATIONS_KEEP_DAYS", "90"))
if OPERATIONS_KEEP_DAYS > 0:
    CELERY_BEAT_SCHEDULE["operations"] = {"task": "console.forget_operations", "schedule": 600.0}

# --- the audit --------------------------------------------------------------------------------------------------------
# A file to which each entry is added as a line of JSON; none by default.
AUDIT_FILE = os.environ.get("ESCAPEMENT_AUDIT_FILE", "")
# A collector that is sent each entry: syslog+udp://, syslog+tcp://, syslog+tls://, syslog+unix://, https://; none by
# default.
AUDIT_STREAM = os.environ.get("ESCAPEMENT_AUDIT_STREAM", "")
# Authorities (PEM) by which a collector of syslog+tls:// is known; the machine's by default.
AUDIT_STREAM_CA = os.environ.get("ESCAPEMENT_AUDIT_STREAM_CA", "")
AUDIT_STREAM_TOKEN = os.environ.get("ESCAPEMENT_AUDIT_STREAM_TOKEN", "")
# So many wrong passwords and locks an hour have an entry of their own.
AUDIT_STRANGERS_AN_HOUR = 1_000
CELERY_BEAT_SCHEDULE["administration"] = _each("console.read_administration", 5.0)
if AUDIT_FILE:
    CELERY_BEAT_SCHEDULE["audit_file"] = _each("console.export_audit", 5.0)

if AUDIT_STREAM:
    CELERY_BEAT_SCHEDULE["audit_stream"] = _each("console.stream_audit", 5.0)

# --- people and safety ------------------------------------------------------------------------------------------------
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
# So many wrong passwords for one name from one address, and that address waits before it may try this name again.
AXES_FAILURE_LIMIT = int(os.environ.get("ESCAPEMENT_LOGIN_TRIES", "10"))
# The same of one name from everywhere, but where its owner has signed in before; and from one address for all names.
LOGIN_TRIES_ACCOUNT = int(os.environ.get("ESCAPEMENT_LOGIN_TRIES_ACCOUNT", "100"))
LOGIN_TRIES_ADDRESS = int(os.environ.get("ESCAPEMENT_LOGIN_TRIES_ADDRESS", "50"))
AXES_HANDLER = "console.security.tries.Tries"
# A session ends after so many minutes without a request; what destroys asks for the password again if that was given
# longer ago (0: never, both).
IDLE_MINUTES = int(os.environ.get("ESCAPEMENT_IDLE_MINUTES", "720"))
PROOF_MINUTES = int(os.environ.get("ESCAPEMENT_PROOF_MINUTES", "15"))
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_LOCKOUT_CALLABLE = "console.security.sign_on.locked"
AXES_CLIENT_IP_CALLABLE = "console.security.sign_on.address_of"
AXES_VERBOSE = False
# Roles whose people need a second factor (* is everybody); superusers need one where any role does.
SECOND_FACTOR_ROLES = [each for each in os.environ.get("ESCAPEMENT_SECOND_FACTOR_ROLES", "").split(",") if each]
# Tokens of REST: how long one lasts that is made without a word about it, and how many requests a second of one are
# answered where the token itself does not say (0: any number).
TOKEN_DAYS = int(os.environ.get("ESCAPEMENT_TOKEN_DAYS", "90"))
TOKEN_REQUESTS_PER_S = int(os.environ.get("ESCAPEMENT_TOKEN_REQUESTS_PER_S", "0"))
# Signing in by an OpenID Connect provider: none without an issuer.
OIDC_ISSUER = os.environ.get("ESCAPEMENT_OIDC_ISSUER", "")
OIDC_CLIENT_ID = os.environ.get("ESCAPEMENT_OIDC_CLIENT_ID", "")
OIDC_CLIENT_SECRET = os.environ.get("ESCAPEMENT_OIDC_CLIENT_SECRET", "")
OIDC_NAME = os.environ.get("ESCAPEMENT_OIDC_NAME", "single sign-on")
OIDC_SCOPES = os.environ.get("ESCAPEMENT_OIDC_SCOPES", "openid profile email")
OIDC_GROUPS_CLAIM = os.environ.get("ESCAPEMENT_OIDC_GROUPS_CLAIM", "groups")
OIDC_GROUPS = groups_of(os.environ.get("ESCAPEMENT_OIDC_GROUPS", ""))
check_provider(OIDC_ISSUER, OIDC_CLIENT_ID)
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
HTTPS = os.environ.get("ESCAPEMENT_HTTPS") == "1" or WEB_TLS is not None
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
SECURE_SSL_REDIRECT = HTTPS
# who watches asks the process itself, not the proxy
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
# Other names below this one, and browsers' own lists: what they have to do is for the owner of the domain to say, in
# the proxy (`check --deploy` asks for both).
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF],
        "font-src": [SELF],
        "connect-src": [SELF],
        "manifest-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    },
}

# --- language and files -----------------------------------------------------------------------------------------------
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
LOCALE_PATHS = [ROOT / "console" / "locale"]
USE_I18N = USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "/static/"
STATICFILES_DIRS = [ROOT / "static"]
# Served straight from static/ with a validator, so that no collect step stands between an edit and a page.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
# nobody else's pages load them
WHITENOISE_ALLOW_ALL_ORIGINS = False

# --- what is slow -----------------------------------------------------------------------------------------------------
# Requests of the broker's protocol, of pages and of REST that take as long are logged (0: none).
SLOW_MS = int(os.environ.get("ESCAPEMENT_SLOW_MS") or 1_000)

# --- logging ----------------------------------------------------------------------------------------------------------
LOGGING = log_lines.configuration()
