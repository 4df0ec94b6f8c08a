"""Checks of settings, and of files that only this user may read."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from django.conf import settings

from broker.doctor import Check, Finding, cannot_tell, change, ok
from broker.hosting import HostingRefused, is_loopback, refuse_open_listening
from broker.log_lines import FORMATS, read_levels
from console.features.dashboards.runs import needs_java
from console.site.checks import ServingRefused, refuse_open_serving

#: as Django's own check --deploy has it
SECRET_KEY_LENGTH = 50
JAVA = 17
_SECRETS = ("secret-key", "broker-secret", "first-login", "postgres-password", "database-url", "redis-url")


def exposure() -> Finding:
    """Look whether console and broker may listen where they are told to."""
    for refuse, refusal in ((refuse_open_serving, ServingRefused), (refuse_open_listening, HostingRefused)):
        try:
            refuse(settings) if refuse is refuse_open_serving else refuse_open_listening()
        except refusal as error:
            said, _stop, remedy = str(error).partition(". ")
            return change(said, remedy or said)
    return ok(f"console on {settings.WEB_HOST}, broker on {settings.BROKER_HOST}")


def plaintext() -> Finding:
    """Look whether something goes over a network in the clear because a setting allows it."""
    if not settings.PLAINTEXT:
        return ok("nothing goes beyond this machine without TLS")
    if is_loopback(settings.WEB_HOST) and is_loopback(settings.BROKER_HOST):
        return change("ESCAPEMENT_PLAINTEXT=1 allows what nobody needs here", "leave ESCAPEMENT_PLAINTEXT out")
    return change(
        "ESCAPEMENT_PLAINTEXT=1: what goes to console or broker can be read on its way, and said again",
        "ESCAPEMENT_TLS_CERT for the broker, a proxy with TLS and ESCAPEMENT_HTTPS=1 for the console (DEPLOY.md)",
    )


def debug() -> Finding:
    """Look whether Django's debug pages are on."""
    if settings.DEBUG:
        return change("ESCAPEMENT_DEBUG=1: error pages tell about the machine", "leave ESCAPEMENT_DEBUG out")
    return ok("no debug pages")


def hosts() -> Finding:
    """Look whether requests may be addressed to any name."""
    wide = [name for name in settings.ALLOWED_HOSTS if name == "*"]
    if wide:
        return change(
            "ESCAPEMENT_HOSTS=*: a page on a stranger's name may lead a browser here",
            "ESCAPEMENT_HOSTS=console.example.com",
        )
    return ok(f"addressed as {', '.join(settings.ALLOWED_HOSTS)}")


def secret_key() -> Finding:
    """Look whether the key that sessions are signed with is long enough."""
    key = settings.SECRET_KEY
    if len(key) < SECRET_KEY_LENGTH or len(set(key)) < 5:
        return change("SECRET_KEY is short: sessions could be forged", "SECRET_KEY=$(openssl rand -base64 48)")
    older = len(settings.SECRET_KEY_FALLBACKS)
    return ok(f"{len(key)} characters" + (f", {older} older ones count still" if older else ""))


def logging() -> Finding:
    """Look whether what the settings say of logs can be read."""
    form = os.environ.get("ESCAPEMENT_LOG_FORMAT", "")
    wrong = read_levels(os.environ.get("ESCAPEMENT_LOG_LEVELS", ""))[1]
    if form and form not in FORMATS:
        return change(f"ESCAPEMENT_LOG_FORMAT={form!r} is none", f"ESCAPEMENT_LOG_FORMAT={' or '.join(FORMATS)}")
    if wrong:
        return change(f"ESCAPEMENT_LOG_LEVELS: {wrong[0]!r} is no level", "ESCAPEMENT_LOG_LEVELS=INFO,broker=DEBUG")
    return ok(f"as {form or FORMATS[0]}")


def metrics() -> Finding:
    """Look whether a Prometheus could read the metrics of a console behind a proxy."""
    if settings.TRUSTED_PROXIES and not settings.METRICS_TOKEN:
        return change(
            "behind a proxy /metrics is told only to this machine by its own address",
            "ESCAPEMENT_METRICS_TOKEN=$(openssl rand -hex 24), and the same in Prometheus (METRICS.md)",
        )
    return ok("with a token" if settings.METRICS_TOKEN else "told to this machine")


def private(var: Path | None = None) -> Finding:
    """Look whether others may read what a run leaves: data, logs, secrets."""
    place = var or Path(settings.VAR)
    if not place.exists():
        return ok(f"{place} is not there yet")
    for path in (place, *(place / name for name in _SECRETS)):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            continue
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            return change(f"others may use {path} ({stat.filemode(mode)})", f"chmod go-rwx {path}")
    return ok(f"{place} is for its user only")


def secrets_in_files() -> Finding:
    """Look whether others may read the keys of certificates that the settings name."""
    for name in ("ESCAPEMENT_TLS_KEY", "ESCAPEMENT_TLS_CLIENT_KEY"):
        path = os.environ.get(name)
        if not path:
            continue
        try:
            mode = Path(path).stat().st_mode
        except OSError as error:
            return change(f"{name}: {error}", f"{name}=/etc/escapement/tls/privkey.pem")
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            return change(f"others may read {path} ({stat.filemode(mode)})", f"chmod o-rwx {path}")
    return ok("keys of certificates are read by nobody else")


def java() -> Finding:
    """Look whether Spark has the Java that it needs."""
    if find_spec("pyspark") is None:
        return ok("Spark is not installed, nothing needs Java")
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    remedy = f"install openjdk-{JAVA}-jre-headless, or set JAVA_HOME"
    if not found or not os.access(found, os.X_OK):
        if not needs_java():
            return ok("no Java: DuckDB computes dashboards; Spark, for large logs and what is followed, would need it")
        return change("Spark computes the dashboards here and needs Java, and there is none", remedy)
    said = subprocess.run([found, "-version"], capture_output=True, text=True, check=False, timeout=30).stderr
    version = said.partition('version "')[2].partition(".")[0].partition('"')[0]
    if not version.isdigit():
        return cannot_tell(f"{found} says {said[:60]!r}")
    if int(version) < JAVA:
        return change(f"{found} is Java {version}, Spark needs {JAVA}", remedy)
    return ok(f"Java {version} at {found}")


def checks() -> dict[str, Check]:
    """Return the checks of settings and files by name."""
    return {
        "settings.exposure": exposure,
        "settings.plaintext": plaintext,
        "settings.debug": debug,
        "settings.hosts": hosts,
        "settings.secret-key": secret_key,
        "settings.logging": logging,
        "settings.metrics": metrics,
        "permissions.var": partial(private),
        "permissions.keys": secrets_in_files,
        "version.java": java,
    }
