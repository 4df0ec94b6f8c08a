"""The list of clusters, as the setting has it."""

from __future__ import annotations

from typing import Any

import pytest

from broker.client.credentials import security_of
from broker.client.errors import InvalidArgument
from broker.mirror.entries import clusters, further_clusters, remember_access


def test_the_first_cluster_has_no_name(settings: Any) -> None:
    settings.ESCAPEMENT_NAMESRV = "a:1"
    settings.ESCAPEMENT_CLUSTERS = further_clusters(" other=b:2;c:3  third-1=[::1]:4 ")
    assert clusters() == {"": "a:1", "other": "b:2;c:3", "third-1": "[::1]:4"}
    assert further_clusters("") == {}


@pytest.mark.parametrize(
    "text",
    ["b:2", "=b:2", "Other=b:2", "a/b=b:2", "other=", "other=b", "other=b:0", "other=b:65536", "other=b:2;",
     "other=b:2,c:3", "other=b:2 other=c:3", "other=b:x", "other=a=b:2"],
)  # fmt: skip
def test_what_is_no_list_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidArgument, match="ESCAPEMENT_CLUSTERS"):
        further_clusters(text)


def test_a_further_cluster_is_spoken_with_as_the_first_unless_it_has_its_own_user() -> None:
    named = {"other-1": "credentials.test:1", "third": "credentials.test:2"}
    own = {"ESCAPEMENT_CLUSTER_OTHER_1_ACCESS_KEY": "me", "ESCAPEMENT_CLUSTER_OTHER_1_SECRET_KEY": "hush"}
    remember_access(named, {"access_key": "all", "secret_key": "known", "tls": True}, own)
    signers = {name: security_of(namesrv, {}) for name, namesrv in named.items()}
    assert {name: each.signer.access_key for name, each in signers.items() if each.signer} == {
        "other-1": "me",
        "third": "all",
    }
    assert all(each.tls for each in signers.values())
    with pytest.raises(InvalidArgument, match="come together"):
        remember_access(named, {}, {"ESCAPEMENT_CLUSTER_THIRD_ACCESS_KEY": "me"})
