"""The part of the table of REST operations that is about check-back addresses."""

from __future__ import annotations

from console.security.tokens import ADMIN

from ...rest.needs import Need
from ...rest.route import Operation
from . import rest as checkback_rest
from .rest_schemas import (
    CheckAddressChange,
    CheckAddressRows,
    CheckAddressShown,
    NewCheckAddress,
)

_ADDRESSES = "/check-addresses"
_ONE = _ADDRESSES + "/{group}"
#: the group of the address is one of producers
_NEEDS = (Need((ADMIN,), "group", "producer group"),)

OPERATIONS = (
    Operation(
        "POST", _ADDRESSES, "Register where a producer group is asked", ADMIN, checkback_rest.register,
        NewCheckAddress, ((201, "It is asked from now on; the secret is told this once.", CheckAddressShown),),
        narrows="body",
    ),
    Operation(
        "GET", _ADDRESSES, "List check-back addresses", ADMIN, checkback_rest.addresses, None,
        ((200, "Addresses.", CheckAddressRows),), narrows="rows",
    ),
    Operation(
        "GET", _ONE, "Look at a check-back address", ADMIN, checkback_rest.address, None,
        ((200, "The address.", CheckAddressShown),), needs=_NEEDS,
    ),
    Operation(
        "PATCH", _ONE, "Change a check-back address", ADMIN, checkback_rest.change, CheckAddressChange,
        ((200, "As it is now; with its secret if that is new.", CheckAddressShown),), needs=_NEEDS,
    ),
    Operation(
        "DELETE", _ONE, "Remove a check-back address", ADMIN, checkback_rest.remove, None,
        ((200, "It is asked no more.", CheckAddressShown),), (("reason", "Kept in the audit."),), needs=_NEEDS,
    ),
)  # fmt: skip
