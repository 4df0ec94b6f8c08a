"""What all mirror tables share: anybody reads them, only the mirror writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NoReturn, Self, TypeVar

from django.db import models

Row = TypeVar("Row", bound=models.Model)


class MirrorReadOnlyError(TypeError):
    """Mirror rows repeat what the broker has: only the mirror writes them. Change the broker (client, REST, console)
    and the mirror follows; if the rows are wrong, run `manage.py mirror rebuild`.
    """  # fmt: skip

    def __init__(self, table: str) -> None:
        super().__init__(f"{table}: {' '.join((self.__doc__ or '').split())}")


class ReadOnlyQuerySet(models.QuerySet[Row]):
    """Every read, no write."""

    def _refuse(self) -> NoReturn:
        raise MirrorReadOnlyError(self.model._meta.label)

    def create(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        self._refuse()

    def get_or_create(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        self._refuse()

    def update_or_create(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        self._refuse()

    def bulk_create(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        self._refuse()

    def bulk_update(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        self._refuse()

    def update(self, **kwargs: Any) -> NoReturn:
        """Refused."""
        self._refuse()

    def delete(self) -> NoReturn:
        """Refused."""
        self._refuse()


class MirrorRow(models.Model):
    """What all mirror tables share: reads through `objects`, writes only through `mirror_writer`."""

    #: used by broker.mirror alone
    mirror_writer = models.Manager()
    objects = ReadOnlyQuerySet.as_manager()

    class Meta:
        abstract = True
        default_manager_name = "objects"
        default_permissions = ("view",)

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        raise MirrorReadOnlyError(self._meta.label)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        raise MirrorReadOnlyError(self._meta.label)

    @classmethod
    def upsert(cls, rows: Iterable[Self], key: Collection[str]) -> int:
        """Insert rows or replace those with the same key, in one statement per 2,000; how many. The mirror's alone."""
        listed = list(rows)
        columns = [field.name for field in cls._meta.concrete_fields if field.name not in key and field.name != "id"]
        cls.mirror_writer.bulk_create(
            listed, batch_size=2_000, update_conflicts=True, unique_fields=list(key), update_fields=columns
        )
        return len(listed)
