"""What is an address, which origins are listed, and where a name may lead."""

from __future__ import annotations

import ipaddress

import pytest

from console.features.checkback.allowed import AddressRefused, AllowList, read_address
from tests.console.checkback.tricks import PLACES, UNREADABLE

LIST = AllowList(["https://hooks.example", "http://hooks.example:8080", "https://192.0.2.7", "https://[2001:db8::7]"])


def test_there_are_sixty_tricks() -> None:
    assert len(set(UNREADABLE)) >= 60
    assert len(set(PLACES)) >= 40


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_trick_is_refused_before_anything_is_looked_up(text: str) -> None:
    with pytest.raises(AddressRefused):
        LIST.check_origin(read_address(text.replace("{port}", "8080")))


@pytest.mark.parametrize(
    ("text", "written", "authority"),
    [
        ("https://hooks.example", "https://hooks.example/", "hooks.example"),
        ("https://hooks.example:443/a?b=c", "https://hooks.example/a?b=c", "hooks.example"),
        ("http://hooks.example:8080/a/b", "http://hooks.example:8080/a/b", "hooks.example:8080"),
        ("https://192.0.2.7/x%20y", "https://192.0.2.7/x%20y", "192.0.2.7"),
        ("https://[2001:db8:0::7]/", "https://[2001:db8::7]/", "[2001:db8::7]"),
    ],
)
def test_an_address_with_a_listed_origin_has_one_meaning(text: str, written: str, authority: str) -> None:
    address = read_address(text)
    LIST.check_origin(address)
    assert (str(address), address.origin.authority) == (written, authority)


@pytest.mark.parametrize("place", PLACES)
def test_a_name_may_not_lead_to_a_special_network(place: str) -> None:
    with pytest.raises(AddressRefused, match="ESCAPEMENT_CHECKBACK_NETWORKS"):
        LIST.check_resolved([ipaddress.ip_address(place)])
    with pytest.raises(AddressRefused):
        AllowList([], ["0.0.0.0/0", "::/0"]).check_resolved([ipaddress.ip_address(place)])


@pytest.mark.parametrize("place", ["8.8.8.8", "1.1.1.1", "193.0.6.139", "2001:4860:4860::8888", "2a00:1450::1"])
def test_an_address_of_the_internet_needs_no_network(place: str) -> None:
    LIST.check_resolved([ipaddress.ip_address(place)])


def test_a_listed_network_opens_itself_and_nothing_else() -> None:
    inside = AllowList([], ["10.1.0.0/16", "127.0.0.2/32", "fd12::/16", "169.254.0.0/16"])
    inside.check_resolved([ipaddress.ip_address(text) for text in ("10.1.2.3", "127.0.0.2", "fd12::1", "169.254.1.1")])
    # not metadata, which has to be listed alone, nor a listed address in the clothes of IPv6
    for text in ("10.2.0.1", "127.0.0.1", "fd13::1", "169.254.169.254", "::ffff:10.1.2.3", "::ffff:127.0.0.2"):
        with pytest.raises(AddressRefused):
            inside.check_resolved([ipaddress.ip_address(text)])
    AllowList([], ["169.254.169.254/32"]).check_resolved([ipaddress.ip_address("169.254.169.254")])


def test_one_bad_address_of_a_name_spoils_all() -> None:
    with pytest.raises(AddressRefused, match="127"):
        LIST.check_resolved([ipaddress.ip_address("8.8.8.8"), ipaddress.ip_address("127.0.0.1")])


@pytest.mark.parametrize(
    ("origins", "networks"),
    [
        (["hooks.example"], []),
        (["https://hooks.example/path"], []),
        (["https://*.example"], []),
        (["https://user@hooks.example"], []),
        (["https://hooks.example:99999"], []),
        ([], ["10.1.2.3/16"]),
        ([], ["ten"]),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(origins: list[str], networks: list[str]) -> None:
    with pytest.raises(AddressRefused):
        AllowList(origins, networks)
