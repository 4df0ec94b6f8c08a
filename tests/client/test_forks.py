"""Clients that were used before a fork: they work in the child, and the parent's go on as if nothing had happened."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

from broker.client import Admin, Producer, SimpleConsumer
from broker.testing import BrokerThread
from tests.house.sources import ROOT

PATIENCE_S = 120
#: `child()` runs a function in a forked child, which dies if it hangs; its errors end the program.
FRAME = """
import asyncio, os, signal, sys, threading, traceback
from broker.client import *

namesrv = sys.argv[1]


def child(work, fork=os.fork):
    pid = fork()
    if pid == 0:
        signal.alarm(60)
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    assert status == 0, f"the child ended with {status}"
"""


def run(broker: BrokerThread, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FRAME + dedent(program), broker.namesrv], cwd=ROOT, capture_output=True,
        text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def bodies(broker: BrokerThread, topic: str) -> list[str]:
    with Admin(broker.namesrv) as admin:
        return sorted(m.body.decode() for queue in range(4) for m in admin.pull(topic, queue, 0, 32))


def test_a_fork_that_python_is_not_told_of_is_noticed(broker: BrokerThread) -> None:
    """As uWSGI's are, without its option that tells."""
    run(
        broker,
        """
        import ctypes

        producer = Producer("p", namesrv)
        producer.send("t", "before")
        child(lambda: producer.send("t", "child", timeout_ms=20_000), ctypes.PyDLL(None).fork)
        producer.send("t", "parent", timeout_ms=20_000)
        """,
    )
    assert bodies(broker, "t") == ["before", "child", "parent"]


def test_a_producer_sends_in_the_child_and_in_the_parent(broker: BrokerThread) -> None:
    run(
        broker,
        """
        producer = Producer("p", namesrv)
        producer.send("t", "before")
        child(lambda: producer.send("t", "child"))
        producer.send("t", "parent", timeout_ms=20_000)
        child(lambda: child(lambda: producer.send("t", "grandchild")))
        producer.close()
        """,
    )
    assert bodies(broker, "t") == ["before", "child", "grandchild", "parent"]


def test_a_transaction_producer_and_an_admin_work_in_the_child(broker: BrokerThread) -> None:
    said = run(
        broker,
        """
        producer = TransactionProducer("tx", namesrv, check=lambda message: Decision.COMMIT)
        admin = Admin(namesrv)
        producer.commit(producer.send_half("t", prepare("before")))
        admin.brokers()

        def work():
            producer.commit(producer.send_half("t", prepare("child")))
            print(len(admin.brokers()), flush=True)
            producer.close()
            admin.close()

        child(work)
        producer.commit(producer.send_half("t", prepare("parent")))
        producer.close()
        admin.close()
        """,
    )
    assert (said, bodies(broker, "t")) == ("1\n", ["before", "child", "parent"])


def test_many_threads_send_while_children_are_made(broker: BrokerThread) -> None:
    run(
        broker,
        """
        producer = Producer("p", namesrv)
        enough = threading.Event()

        def send_all(number):
            while not enough.is_set():
                producer.send("busy", str(number), timeout_ms=20_000)

        threads = [threading.Thread(target=send_all, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for number in range(8):
            child(lambda: producer.send("t", str(number), timeout_ms=20_000))
        enough.set()
        for thread in threads:
            thread.join()
        producer.close()
        """,
    )
    assert bodies(broker, "t") == [str(number) for number in range(8)]


def test_a_simple_consumer_receives_and_acknowledges_in_the_child(broker: BrokerThread) -> None:
    with Producer("p", broker.namesrv) as producer:
        for number in range(2):
            producer.send("t", str(number), queue_id=0)
    run(
        broker,
        """
        consumer = SimpleConsumer("g", namesrv)
        (first,) = consumer.receive("t", max_messages=1)

        def work():
            (second,) = consumer.receive("t", max_messages=1)
            consumer.ack(first, second)

        child(work)
        consumer.close()
        """,
    )
    with SimpleConsumer("g", broker.namesrv) as consumer:
        assert consumer.receive("t", wait_ms=0) == []


def test_a_consumer_of_the_parent_goes_on_and_the_child_has_one_of_its_own(broker: BrokerThread) -> None:
    said = run(
        broker,
        """
        came = threading.Semaphore(0)
        consumer = Consumer("g", namesrv, from_where="first")
        first = os.getpid()

        @consumer.on("t")
        def handle(message):
            print(os.getpid() == first, message.body.decode(), flush=True)
            came.release()

        producer = Producer("p", namesrv)
        consumer.start()
        producer.send("t", "one")
        assert came.acquire(timeout=20)

        def leave():
            assert consumer.core.queues == ()
            consumer.stop()

        child(leave)
        producer.send("t", "two")
        assert came.acquire(timeout=20)
        consumer.stop()

        def begin():
            try:
                consumer.start()
            except ClientClosed:
                os._exit(0)
            os._exit(1)

        child(begin)
        other = Consumer("other", namesrv, from_where="first")
        other.subscribe("t", "*", lambda message: came.release())

        def consume():
            with other:
                assert came.acquire(timeout=20) and came.acquire(timeout=20)

        child(consume)
        producer.close()
        """,
    )
    assert said == "True one\nTrue two\n"


def test_a_lite_pull_consumer_says_that_the_child_has_to_subscribe(broker: BrokerThread) -> None:
    run(
        broker,
        """
        producer = Producer("p", namesrv)
        producer.send("t", "one")
        consumer = LitePullConsumer("g", namesrv, from_where="first")
        consumer.subscribe("t")

        def work():
            try:
                consumer.poll()
            except InvalidArgument as error:
                assert "subscribe" in str(error)
                consumer.assign(consumer.queues("t"))
                while not consumer.poll():
                    pass
                os._exit(0)
            os._exit(1)

        child(work)
        consumer.close()
        producer.close()
        """,
    )


def test_an_asynchronous_client_says_that_it_belongs_to_the_parent(broker: BrokerThread) -> None:
    run(
        broker,
        """
        async def send(producer):
            await producer.send("t", "one")

        async def main():
            producer = AsyncProducer("p", namesrv)
            admin = AsyncAdmin(namesrv)
            simple = AsyncSimpleConsumer("g", namesrv)
            lite = AsyncLitePullConsumer("g", namesrv)
            consumer = AsyncConsumer("g", namesrv)
            consumer.subscribe("t", "*", print)
            await send(producer)
            await admin.brokers()

            def work():
                async def use():
                    uses = (
                        lambda: send(producer), admin.brokers, lambda: simple.receive("t"), lambda: lite.subscribe("t"),
                        consumer.start,
                    )
                    for each in uses:
                        try:
                            await each()
                        except UsedAfterFork:
                            continue
                        raise AssertionError(each)
                    async with AsyncProducer("p", namesrv) as own:
                        await own.send("t", "own")
                asyncio.run(use())

            child(work)
            await producer.send("t", "parent")
            await producer.close()
            await admin.close()

        asyncio.run(main())
        """,
    )
    assert bodies(broker, "t") == ["one", "own", "parent"]


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_a_pool_of_processes_sends(broker: BrokerThread, method: str) -> None:
    run(
        broker,
        f"""
        import multiprocessing
        from tests.client.forking import send_one, producer_of

        producer_of(namesrv).send("t", "parent")
        with multiprocessing.get_context({method!r}).Pool(2) as pool:
            pool.starmap(send_one, [(namesrv, str(number)) for number in range(4)])
        producer_of(namesrv).close()
        """,
    )
    assert bodies(broker, "t") == ["0", "1", "2", "3", "parent"]
