"""The part of the table of REST operations that is about check-back addresses."""

from __future__ import annotations

from console.credentials import ADMIN

from . import checkaddresses
from .checkaddressschemas import CheckAddressChange, CheckAddressRows, CheckAddressShown, NewCheckAddress
from .needs import Need
from .operation import Operation

_ADDRESSES = "/check-addresses"
_ONE = _ADDRESSES + "/{group}"
#: the group of the address is one of producers
_NEEDS = (Need((ADMIN,), "group", "producer group"),)

OPERATIONS = (
    Operation(
        "POST", _ADDRESSES, "Register where a producer group is asked", ADMIN, checkaddresses.register,
        NewCheckAddress, ((201, "It is asked from now on; the secret is told this once.", CheckAddressShown),),
        narrows="body",
    ),
    Operation(
        "GET", _ADDRESSES, "List check-back addresses", ADMIN, checkaddresses.addresses, None,
        ((200, "Addresses.", CheckAddressRows),), narrows="rows",
    ),
    Operation(
        "GET", _ONE, "Look at a check-back address", ADMIN, checkaddresses.address, None,
        ((200, "The address.", CheckAddressShown),), needs=_NEEDS,
    ),
    Operation(
        "PATCH", _ONE, "Change a check-back address", ADMIN, checkaddresses.change, CheckAddressChange,
        ((200, "As it is now; with its secret if that is new.", CheckAddressShown),), needs=_NEEDS,
    ),
    Operation(
        "DELETE", _ONE, "Remove a check-back address", ADMIN, checkaddresses.remove, None,
        ((200, "It is asked no more.", CheckAddressShown),), (("reason", "Kept in the audit."),), needs=_NEEDS,
    ),
)  # fmt: skip
