"""The names that a right is given on, as the policies of access control write them, too (broker/rocketmq/acl.py):

    orders     the topic of exactly that name
    orders*    all that begin with "orders", also those to come
    *          every name

A star counts as the last character only; before it stands a plain text, never a pattern of another kind.
"""

from __future__ import annotations

#: every name there is, or will be
EVERY = "*"
_STAR = "*"


def is_beginning(pattern: str) -> bool:
    """Tell whether it stands for all names that begin so; every name begins with nothing."""
    return pattern.endswith(_STAR)


def beginning(pattern: str) -> str:
    """Return what names begin with, or the name itself."""
    return pattern.removesuffix(_STAR)


def matches(pattern: str, name: str) -> bool:
    """Tell whether the name is meant. Nothing but `*` means what has no name."""
    if is_beginning(pattern):
        return name.startswith(beginning(pattern))
    return bool(name) and name == pattern


def is_well_formed(pattern: str) -> bool:
    """Tell whether it is a name or a beginning: no star stands before its end."""
    return bool(pattern) and _STAR not in beginning(pattern)
