"""A Django project that has the outbox and handlers; its addresses come from the test's environment."""

from __future__ import annotations

import os

from console.run.addresses import database_settings

SECRET_KEY = "tests"
INSTALLED_APPS = ["broker.outbox", "broker.handlers", "tests.interop.ordering"]
DATABASES = {"default": database_settings(os.environ["DATABASE_URL"]) | {"CONN_MAX_AGE": 0}}
USE_TZ = True
ESCAPEMENT_NAMESRV = os.environ["OUTBOX_NAMESRV"]
ESCAPEMENT_PRODUCER_GROUPS = [os.environ["OUTBOX_GROUP"]]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"terminal": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["terminal"], "level": "INFO"},
}
