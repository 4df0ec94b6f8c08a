"""Static files are looked for once in a test run.

Every client of a test makes the middleware again, which lists, opens and describes some hundred files: a twentieth of
a second each time. Files do not change while tests run, so what the first one found is what the others would find.
"""

from __future__ import annotations

import pytest
from whitenoise.middleware import WhiteNoiseMiddleware


def keep(patch: pytest.MonkeyPatch) -> None:
    """Have every later middleware take the files of the first of its kind."""
    found: dict[tuple[type, str, object], dict[str, object]] = {}
    look = WhiteNoiseMiddleware.add_files_from_finders

    def add_files_from_finders(self: WhiteNoiseMiddleware) -> None:
        kind = (type(self), self.static_prefix, self.max_age)
        if kind not in found:
            look(self)
            found[kind] = dict(self.files)
        self.files.update(found[kind])

    patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", add_files_from_finders)
