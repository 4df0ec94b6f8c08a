#!/usr/bin/env python
"""Django's command line for this project: `manage.py migrate`, `manage.py house`, `manage.py demo flights`, ..."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    execute_from_command_line(sys.argv)
