"""Django by WSGI: the room of the console pages behind the one public port."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.site.settings")

application = get_wsgi_application()
