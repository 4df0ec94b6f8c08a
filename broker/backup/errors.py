"""What can be wrong with a backup, as part of the one tree of errors.

BrokerError                     (rocketmq/errors.py)
└── BackupRefused               it is not begun, or ends: the message says why and what to do
    └── BackupDamaged           a part of a backup is not what its manifest says
"""

from __future__ import annotations

from ..rocketmq.errors import BrokerError


class BackupRefused(BrokerError):
    """A backup is not taken or not restored; the message says what to do instead."""


class BackupDamaged(BackupRefused):
    """A part of a backup is not what its manifest says; restore an older backup, or take a new one."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} of the backup is damaged: {why}. Restore another backup, or take a new one.")
        self.path = path
