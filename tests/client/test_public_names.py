"""What of the client is public: the names of its package, and of the modules without a leading underscore."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import broker.client
from tests.house.sources import ROOT, own_python, place, tree

PACKAGE = """
    ALL Access Admin AsyncAdmin AsyncConsumer AsyncLitePullConsumer AsyncProducer AsyncSimpleConsumer AsyncTimers
    AsyncTransactionProducer Body BrokerRefused BrokerUnreachable ClientClosed ClientError Consumer DEFAULT_HANDLERS
    DRAIN_S DeadLetter Decision Half HalfNotSafe Handler HandlerTimeout InvalidArgument LitePullConsumer Message
    MessageOptions MessageQueue NoBroker NoSuchQueue NotHeld NotSupported NotThisEvent NotWritable Outgoing Producer
    Receipt Received RetryIn RouteNotFound SUSPEND_BOUNDS_MS SUSPEND_MS ScheduleKeyTaken SendResult SimpleConsumer
    SimpleConsumers Sql StopSignals Timeout TimerLimit TimerPast TimerTarget TimerTooFar Timers Timing Tls Trace
    TransactionListener TransactionProducer TransactionResult UsedAfterFork as_half event plain_sends prepare
    read_receipt remember subscription timer_half trace_topic with_trace
"""
MODULES = {
    "admin": """
        AccessUser Administration AdministrativeRequest
        Broker BrokerSetting ConnectedClient Connection ConsumeStats GroupConfig GroupConnections HeldQueue Pending
        QueueEntries QueueEntry QueueProgress QueueStats Route RouteQueues RunningInfo TopicConfig TopicStats
        TopicWaiting TopicWork UserAccess
    """,
    "credentials": "Access Security Signer Tls remember",
    "handlers": "Handler HandlerOptions HandlerStats Plan for_messages",
    "errors": """
        Answer BadAnswer BrokerRefused BrokerUnreachable ClientClosed ClientError HalfNotSafe InvalidArgument
        InvalidFilter
        NoBroker NoSuchQueue NotHeld NotSupported NotThisEvent NotWritable PlainSendRefused RouteNotFound
        ScheduleKeyTaken Timeout TimerLimit TimerPast TimerTooFar UsedAfterFork
    """,
    "names": """
        BROKER_TOPICS MAX_BODY_BYTES MAX_DELAY_LEVEL MAX_GROUP_CHARACTERS MAX_PROPERTIES_BYTES
        MAX_SCHEDULE_KEY_CHARACTERS MAX_TOPIC_CHARACTERS allow_delay_levels check_body check_delay_level
        check_from_where check_group check_number check_properties check_queue_id check_schedule_key
        check_sharding_key check_tag check_topic check_user check_writable_topic joined_keys
    """,
    "remoting": "Handler MAX_ANSWER_BYTES RemotingClient RemotingError Response Secure Sign",
    "timers": """
        Action BadHandle DueBucket Herd LatenessBucket MOST_TARGETS OnConflict Outcome RecallHandle Releases Steered
        SteeredAll Timer TimerCheckpoint TimerEvent TimerForecast TimerLife TimerLimits TimerMetric TimerPage
        TimerStatus TimerTarget TimerWheel TimersPaused TopicCount TopicLateness TopicTimers WheelBucket WheelRoll
        read_handle
    """,
    "transactions": """
        Action GroupTransactions LifeEvent MOST_ROWS MOST_TARGETS OpRecord State SteeredTransaction SteeredTransactions
        Transaction TransactionLife TransactionPage TransactionStatus TransactionTarget ends_of newest op_records
        transactions_of
    """,
}
#: Who looks at the inside of the client, and at which module of it; nobody is to be added.
INSIDERS = {
    ("bench/many_consumers.py", "_membership"),
    # a client of its own, for kombu, that stands on the parts of this one
    ("broker/celery/link.py", "_event_loop"),
    ("broker/celery/link.py", "_membership"),
    ("broker/celery/link.py", "_session"),
    ("broker/celery/tailing.py", "_offsets"),
    ("broker/celery/tailing.py", "_reader"),
    ("broker/celery/tailing.py", "_session"),
    # what is fuzzed are the decoders themselves
    ("tests/fuzz/decoders.py", "_answers"),
    ("tests/fuzz/decoders.py", "_events"),
    ("tests/fuzz/decoders.py", "_pipeline"),
    ("tests/fuzz/decoders.py", "_reader"),
    ("tests/fuzz/decoders.py", "_simple"),
    # it reads what an Apache broker says of itself, whose JSON is not strict
    ("tests/cluster.py", "_answers"),
    # which broker a key leads to
    ("tests/outbox/test_schedule_keys.py", "_pipeline"),
    ("tests/console/clients/test_clients.py", "_event_loop"),
}


def test_the_package_has_these_names() -> None:
    assert sorted(broker.client.__all__) == sorted(PACKAGE.split())
    assert all(hasattr(broker.client, name) for name in broker.client.__all__)


def test_these_modules_are_public() -> None:
    found = {name for _, name, _ in pkgutil.iter_modules(broker.client.__path__) if not name.startswith("_")}
    assert found == set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_a_public_module_has_these_names(name: str) -> None:
    module = importlib.import_module(f"broker.client.{name}")
    assert sorted(module.__all__) == sorted(MODULES[name].split())
    assert all(hasattr(module, each) for each in module.__all__)


def test_a_public_module_is_named_where_programmers_look() -> None:
    document = (ROOT / "docs" / "CLIENT.md").read_text()
    unnamed = [name for name in MODULES if f"`escapement_mq.client.{name}`" not in document]
    assert unnamed == []
    assert [name for name in MODULES if f"`{name}`" not in (broker.client.__doc__ or "")] == []


def inside_imports() -> Iterator[tuple[str, str]]:
    """Each file outside of the client that imports one of its private modules, and that module."""
    for path in own_python():
        where = place(path)
        if where.startswith(("broker/client/", "tests/client/")):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom):
                home = (node.module or "").split(".")
                said = [*home, *(alias.name for alias in node.names)] if home[-1] == "client" else home
                if "client" in home:
                    yield from ((where, part) for part in said if part.startswith("_"))
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    yield from ((where, part) for part in alias.name.split(".") if ".client._" in alias.name)


def test_private_modules_are_imported_by_the_client_alone() -> None:
    assert set(inside_imports()) == INSIDERS
