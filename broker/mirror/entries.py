"""The list of clusters: ESCAPEMENT_NAMESRV is the first, with the entry ""; ESCAPEMENT_CLUSTERS names further ones.

    ESCAPEMENT_CLUSTERS="other=10.0.0.1:9876;10.0.0.2:9876 third=10.0.0.3:9876"

Further clusters are spoken with as the first one is, unless ESCAPEMENT_CLUSTER_<NAME>_ACCESS_KEY and _SECRET_KEY are
set (<NAME> in capitals, `-` as `_`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.conf import settings

from ..client.credentials import Access, remember
from ..client.errors import InvalidArgument

_NAME = re.compile(r"[a-z0-9-]{1,64}")
_ADDRESS = re.compile(r"[^\s:;,=]+:([0-9]{1,5})|\[[0-9A-Fa-f:.]+\]:([0-9]{1,5})")
SETTING = "ESCAPEMENT_CLUSTERS"


def further_clusters(text: str) -> dict[str, str]:
    """Read the setting; return entry -> name servers. Raises InvalidArgument.

    >>> further_clusters("other=10.0.0.1:9876;10.0.0.2:9876 third=10.0.0.3:9876")
    {'other': '10.0.0.1:9876;10.0.0.2:9876', 'third': '10.0.0.3:9876'}
    """
    found: dict[str, str] = {}
    for word in text.split():
        name, mark, addresses = word.partition("=")
        if not mark or not _NAME.fullmatch(name):
            raise InvalidArgument(
                f"{SETTING} has {word!r}: write name=host:port;host:port, the name of a-z, 0-9 and -.", field=SETTING
            )
        if name in found:
            raise InvalidArgument(f"{SETTING} names {name!r} twice: each cluster needs its own name.", field=SETTING)
        for address in addresses.split(";"):
            match = _ADDRESS.fullmatch(address)
            if match is None or not 0 < int(match[1] or match[2]) < 65_536:
                raise InvalidArgument(f"{SETTING}: {address!r} of {name!r} is not host:port.", field=SETTING)
        found[name] = addresses
    return found


def clusters() -> dict[str, str]:
    """Return all clusters of Django's settings: entry -> name servers, the first one's entry ""."""
    return {"": str(settings.ESCAPEMENT_NAMESRV), **settings.ESCAPEMENT_CLUSTERS}


def remember_access(further: Mapping[str, str], access: Access, environment: Mapping[str, str]) -> None:
    """Have clients of these clusters sign as `access` says, or as the cluster's own variables do. Raises
    InvalidArgument."""
    for entry, namesrv in further.items():
        name = f"ESCAPEMENT_CLUSTER_{entry.upper().replace('-', '_')}"
        key, secret = environment.get(f"{name}_ACCESS_KEY"), environment.get(f"{name}_SECRET_KEY")
        own: Access = {"access_key": key, "secret_key": secret} if key or secret else {}
        remember(namesrv, {**access, **own})
