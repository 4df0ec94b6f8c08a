#!/usr/bin/env python
"""Django's command line for this project: `manage.py migrate`, `manage.py run`, `manage.py demo flights`, ..."""

from __future__ import annotations

from console.__main__ import main

if __name__ == "__main__":
    main()
