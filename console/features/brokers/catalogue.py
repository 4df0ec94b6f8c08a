"""The settings of brokers that the console knows: where they belong, what they mean, and what may be changed to what.

Names are RocketMQ's, or those of Escapement that begin with `esc`. What a broker has and is not in here is shown as it
is, and cannot be changed. The bounds of those that can be changed are the broker's own (a test holds them to it); at an
Apache RocketMQ broker, which takes anything and tells nothing, they are all there is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import TextChoices
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from console.operations.errors import InvalidParameter

Words = str | Promise
_LARGEST_INT = 0x7FFF_FFFF
_MONTH_MS = 30 * 86_400_000
#: a value that tells what nobody should read over a shoulder
_SECRET = re.compile(
    "password|secret|token|credential|accesskey|initauthenticationuser|exporterheader|socksproxy", re.IGNORECASE
)
LONGEST_VALUE = 255


class Heading(TextChoices):
    """The headings that settings stand under, in this order."""

    ADDRESSES = "addresses", _("Addresses")
    DURABILITY = "durability", _("Durability")
    RETENTION = "retention", _("Retention")
    LIMITS = "limits", _("Limits")
    TIMERS = "timers", _("Timers and delay levels")
    TRANSACTIONS = "transactions", _("Transactions")
    SECURITY = "security", _("Security")
    OTHER = "other", _("Other")


@dataclass(frozen=True, slots=True)
class Known:
    """A setting: its heading, its meaning, its unit; with bounds, or yes and no, it can be changed while a broker runs.

    `low` of a number that may be a fraction is not itself allowed.
    """

    heading: Heading
    meaning: Words = ""
    unit: str = ""
    low: int | None = None
    high: int = 0
    is_flag: bool = False
    is_fraction: bool = False
    #: hours of a day, as Apache RocketMQ writes them: "04", or "04;16"
    is_hours: bool = False

    @property
    def is_changeable(self) -> bool:
        """Tell whether it can be changed while a broker runs."""
        return self.low is not None or self.is_flag or self.is_hours

    @property
    def is_number(self) -> bool:
        """Tell whether it is a number with bounds."""
        return self.low is not None

    def checked(self, name: str, given: object) -> str:
        """Return the value as a broker writes it; raises InvalidParameter."""
        text = {True: "true", False: "false"}[given] if isinstance(given, bool) else str(given).strip()
        if self.is_flag:
            if text.lower() not in ("true", "false"):
                raise InvalidParameter(name, _("%(name)s is true or false.") % {"name": name})
            return text.lower()
        if self.is_hours:
            hours = text.split(";")
            if not all(re.fullmatch("[01][0-9]|2[0-3]", hour) for hour in hours):
                said = _("%(name)s is an hour of the day from 00 to 23, or several: 04;16.")
                raise InvalidParameter(name, said % {"name": name})
            return ";".join(hours)
        return self._number(name, text)

    def _number(self, name: str, text: str) -> str:
        low = self.low or 0
        pattern = r"[0-9]{1,15}(\.[0-9]{1,6})?" if self.is_fraction else "[0-9]{1,15}"
        value = float(text) if re.fullmatch(pattern, text, re.ASCII) else -1.0
        if not (low < value if self.is_fraction else low <= value) or value > self.high:
            said = _("%(name)s is a whole number from %(low)s to %(high)s.")
            if self.is_fraction:
                said = _("%(name)s is a number above %(low)s, up to %(high)s.")
            raise InvalidParameter(name, said % {"name": name, "low": f"{low:,}", "high": f"{self.high:,}"})
        return f"{value:g}" if self.is_fraction else str(int(text))


_A, _D, _R, _L = Heading.ADDRESSES, Heading.DURABILITY, Heading.RETENTION, Heading.LIMITS
_T, _X, _S, _O = Heading.TIMERS, Heading.TRANSACTIONS, Heading.SECURITY, Heading.OTHER

KNOWN: Mapping[str, Known] = {
    "brokerClusterName": Known(_A, _("The cluster that it belongs to.")),
    "brokerName": Known(_A, _("The name under which name services list it.")),
    "brokerId": Known(_A, _("0 is the master; others are its slaves.")),
    "brokerRole": Known(_A, _("Whether it is the master or a slave, and how a master waits for its slaves.")),
    "brokerIP1": Known(_A, _("The address that clients are given.")),
    "brokerIP2": Known(_A, _("The address that slaves copy from.")),
    "bindAddress": Known(_A, _("The address that it listens at.")),
    "listenPort": Known(_A, _("The port that clients connect to.")),
    "haListenPort": Known(_A, _("The port that slaves copy from.")),
    "namesrvAddr": Known(_A, _("The name services that it registers with.")),
    "storePathRootDir": Known(_A, _("The directory of the store.")),
    "storePathCommitLog": Known(_A, _("The directory of the commit log.")),
    "flushDiskType": Known(_D, _("SYNC_FLUSH answers a send when it is on disk, ASYNC_FLUSH before.")),
    "flushIntervalCommitLog": Known(
        _D, _("How often the log is written to disk where sends do not wait for it."), "ms", 1, 60_000
    ),
    "enabledAppendPropCRC": Known(_D, _("Every record has a checksum of its own.")),
    "escCheckpointIntervalMs": Known(_D, _("How often the state is saved, so that a start has less to read."), "ms"),
    "escCheckpointBytes": Known(_D, _("After so much of the log the state is saved in any case."), "bytes"),
    "mappedFileSizeCommitLog": Known(_D, _("The size of one file of the commit log."), "bytes"),
    "mappedFileSizeConsumeQueue": Known(_D, _("The size of one file of a consume queue."), "bytes"),
    "maxHashSlotNum": Known(_D, _("The slots of one index file.")),
    "maxIndexNum": Known(_D, _("The keys that one index file holds.")),
    "fileReservedTime": Known(
        _R, _("For how long messages are kept."), "h", 0, 1_000_000, is_fraction=True
    ),
    "deleteWhen": Known(_R, _("The hour of the day at which old files are deleted."), is_hours=True),
    "diskMaxUsedSpaceRatio": Known(
        _R, _("How full the disk may be: above it sends are refused (Apache RocketMQ deletes files)."), "%", 1, 99
    ),
    "escKeepUnconsumed": Known(
        _R, _("Messages that a known group has not consumed are kept however old they are."), is_flag=True
    ),
    "maxMessageSize": Known(_L, _("The largest body of a message."), "bytes", 1, 8 * 1024 * 1024),
    "escMaxPropertiesBytes": Known(_L, _("The largest properties of a message."), "bytes"),
    "escPendingLimitBytes": Known(_L, _("How much may wait for the disk before sends are refused."), "bytes"),
    "maxTransferBytesOnMessageInMemory": Known(
        _L, _("One pull is answered with so many bytes at most."), "bytes", 1, 4 * 1024 * 1024
    ),
    "maxTransferCountOnMessageInMemory": Known(
        _L, _("One pull is answered with so many messages at most."), "", 1, 1024
    ),
    "autoCreateTopicEnable": Known(_L, _("A topic is created by the first message to it."), is_flag=True),
    "autoCreateSubscriptionGroup": Known(
        _L, _("A consumer group is created by its first consumer."), is_flag=True
    ),
    "defaultTopicQueueNums": Known(
        _L, _("The number of queues of a topic that is created by its first message."), "", 1, 16_384
    ),
    "messageDelayLevel": Known(_T, _("The delay levels, the first one first.")),
    "timerWheelEnable": Known(_T, _("Messages can be sent for any time.")),
    "timerPrecisionMs": Known(_T, _("The width of a slot of the timer wheel."), "ms"),
    "timerMaxDelaySec": Known(_T, _("How far ahead a timer may be due."), "s"),
    "timerCongestNumEachSlot": Known(
        _T, _("The timers that may be due in one second; 2147483647 is no limit."), "", 1, _LARGEST_INT
    ),
    "escTimerMaxPending": Known(_T, _("The timers that may be pending in total."), "", 1, 10**12),
    "escTimerOverduePerSecond": Known(
        _T, _("How many overdue timers are released in a second, after a standstill."), "", 1, 1_000_000
    ),
    "mappedFileSizeTimerLog": Known(_T, _("The size of one file of the timer log."), "bytes"),
    "recallMessageEnable": Known(_T, _("Pending timers can be cancelled by their recall handle.")),
    "transactionTimeOut": Known(
        _X, _("How old a half message is when its producer is first asked."), "ms", 0, _MONTH_MS
    ),
    "transactionCheckInterval": Known(_X, _("The time from one check to the next."), "ms", 1, _MONTH_MS),
    "transactionCheckMax": Known(
        _X, _("After so many checks without a decision a half message is parked."), "", 1, 255
    ),
    "escAccessControl": Known(_S, _("Clients have to sign their requests, and policies say what each may do.")),
    "escTls": Known(_S, _("Clients can connect with TLS.")),
    "aclEnable": Known(_S, _("Clients have to sign their requests.")),
    "authenticationEnabled": Known(_S, _("Clients have to sign their requests.")),
    "authorizationEnabled": Known(_S, _("Policies say what each user may do.")),
    "useTLS": Known(_S, _("It connects to others with TLS.")),
    "configBlackList": Known(_S, _("Settings that cannot be changed while it runs.")),
    "brokerPermission": Known(_O, _("What clients may do with its topics: 6 read and write, 4 read.")),
    "clientCallbackExecutorThreads": Known(_O, _("The processors of its machine.")),
    "enablePropertyFilter": Known(_O, _("Consumers can filter by SQL.")),
    "slaveReadEnable": Known(_O, _("Consumers read from slaves when the master is busy.")),
    "traceOn": Known(_O, _("Clients are told to trace their messages.")),
    "traceTopicEnable": Known(_O, _("The topic of traces is created by the broker.")),
    "msgTraceTopicName": Known(_O, _("The topic of traces.")),
}  # fmt: skip
UNKNOWN = Known(Heading.OTHER)
ORDER = {name: number for number, name in enumerate(KNOWN)}


def known(name: str) -> Known:
    """Return what is known of a setting; that it stands under "Other" where nothing is."""
    return KNOWN.get(name, UNKNOWN)


def is_secret(name: str) -> bool:
    """Tell whether a setting may hold what gives access, so that its value is not shown."""
    return _SECRET.search(name) is not None


def checked(given: object) -> dict[str, str]:
    """Return settings with their values as brokers write them; raises InvalidParameter."""
    if not isinstance(given, Mapping) or not given:
        raise InvalidParameter("settings", "settings are names with values, at least one.")
    made = {}
    for name, value in given.items():
        setting = known(str(name))
        if not setting.is_changeable:
            can = ", ".join(each for each, about in KNOWN.items() if about.is_changeable)
            raise InvalidParameter(
                "settings", f"{str(name)[:60]!r} cannot be changed while a broker runs; these can: {can}."
            )
        if not isinstance(value, bool | int | float | str) or len(str(value)) > LONGEST_VALUE:
            raise InvalidParameter(str(name), f"{name} has a value of at most {LONGEST_VALUE} characters.")
        made[str(name)] = setting.checked(str(name), value)
    return made
