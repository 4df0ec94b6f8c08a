"""A whole broker in one event loop: engine, the servers of name service and broker, pump, upkeep."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from ..engine.config import EngineConfig
from ..engine.disk import Files, OsFiles
from ..engine.engine import Engine
from ..engine.log.ticket import Ticket
from ..namesrv.registration import DataVersion
from ..namesrv.requests import NameService
from ..rocketmq.acl import AccessConfig
from ..rocketmq.codes import Request
from ..rocketmq.message import written_address
from .access.accounts import AccessProcessor
from .access.gate import Gate, guard
from .administration import AdministrationLog
from .clock import WALL_CLOCK, Clocks, Simulator
from .connection import Connection, Express, Handler, Hooks, Limits, Server, Shared
from .listener import WORTH_TRIMMING_BYTES, bound, bound_pair, give_back, no_vip_channel
from .long_polls import WaitingPops, WaitingPulls
from .metrics import BrokerMetrics
from .processors.acks import AckProcessor
from .processors.broker import BrokerProcessor, CleanupProcessor
from .processors.clients import ClientQueryProcessor, HeartbeatProcessor
from .processors.groups import AssignmentProcessor, GroupProcessor, LockProcessor
from .processors.namesrv import ResidentBroker, name_service
from .processors.offsets import OffsetProcessor, ProgressProcessor, ResetProcessor
from .processors.pop import PopProcessor
from .processors.pull import PullProcessor, QueryProcessor
from .processors.send import ReplyProcessor, SendProcessor
from .processors.settings import ConfigurationProcessor, Doors, KeptSettings
from .processors.timers import ScheduleProcessor, TimerProcessor
from .processors.topics import DeletionProcessor, TopicProcessor, sweep_all
from .processors.transactions import CheckRounds, TransactionProcessor
from .pump import Pump, tune_interpreter
from .registrar import NameServers, Registrar, Told
from .self_test import SelfTest
from .send_reply import SendReplies, Sends
from .sniffing import Pages, front
from .state import BrokerState
from .tls import Certificates, TlsConfig

logger = logging.getLogger(__name__)


class Processor(Protocol):
    """The handlers of some request codes."""

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""


@dataclass(frozen=True, slots=True)
class Protection:
    """The protection of a broker. With `access` there is access control: only signed requests are taken.

    Metrics are told to who brings the `metrics_token`, or, if it is empty, to this machine.
    """

    access: AccessConfig | None = None
    tls: TlsConfig | None = None
    metrics_token: str = field(default="", repr=False)


UNPROTECTED = Protection()
MOST_ASKED = 1_000
"""Questions of one `ask_producers`."""
COUNT_EVERY_S = 0.1
"""What came is counted once in so long."""
NOWHERE = NameServers()


class BrokerService:
    """A broker: a store that is opened and served until it is stopped.

    A port of 0 takes a free one; `address` and `namesrv_address` say which. `on_failed` is called with the reason
    when the store has FAILED: the process is to end, recovery at the next start checks the end of the log. The
    `vip_channel` is the port two below the broker's, as at Apache RocketMQ: if it is taken the broker serves without.
    It registers at the name servers of `register_at`, beside having a name service of its own. Where it is not
    `is_alone` the process belongs to others: it leaves the interpreter's settings as they are, and says less. With
    `self_test` it measures by itself how fast it can release, where that was never measured.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        listen_host: str = "127.0.0.1",
        broker_port: int | None = None,
        namesrv_port: int = 9876,
        files: Files | None = None,
        on_failed: Callable[[str], None] | None = None,
        limits: Limits | None = None,
        clocks: Clocks = WALL_CLOCK,
        protection: Protection = UNPROTECTED,
        vip_channel: bool = True,
        register_at: NameServers = NOWHERE,
        is_alone: bool = True,
        self_test: bool = False,
    ) -> None:
        self.config = config
        self._listen_host = listen_host
        self._broker_port = config.port if broker_port is None else broker_port
        self._namesrv_port = namesrv_port
        self._files = files
        self._on_failed = on_failed
        self._limits = limits or Limits()
        self._clock = clocks.broker
        self._live_clock = clocks.live or clocks.broker
        self._simulation = clocks.simulation
        self._simulator: Simulator | None = None
        self._protection = protection
        self._gate: Gate | None = None
        self._is_vip_served = vip_channel
        self._vip_port: int | None = None
        self._replies = SendReplies(config.broker_name)
        self._freed_bytes = 0
        self._servers: list[Server] = []
        self._state: BrokerState | None = None
        self._pump: Pump | None = None
        self._check_rounds: CheckRounds | None = None
        self._waiting_pops: WaitingPops | None = None
        self._told_of_arrivals: Callable[[], None] | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._count_timer: asyncio.TimerHandle | None = None
        self._register_at = register_at
        self._is_alone = is_alone
        self._has_self_test = self_test
        self._self_test: SelfTest | None = None
        self._registrar: Registrar | None = None
        self._administration: AdministrationLog | None = None
        self._names: NameService | None = None

    @property
    def engine(self) -> Engine:
        """The engine that is served. Use it from the event loop only."""
        return self._running.engine

    @property
    def servers(self) -> tuple[Server, ...]:
        """The servers of the broker and of the name service."""
        return tuple(self._servers)

    @property
    def address(self) -> str:
        """The address (host:port) of the broker, as clients are told."""
        return self._running.address

    @property
    def namesrv_address(self) -> str:
        """The address (host:port) of the name service."""
        return written_address(self.config.host, self._namesrv_port)

    @property
    def registered(self) -> dict[str, bool]:
        """The name servers that it registers at, and whether each has its registration."""
        return {} if self._registrar is None else self._registrar.registered

    @property
    def vip_port(self) -> int | None:
        """The port of the VIP channel, which answers as the broker's; None if it is not served."""
        return self._vip_port

    @property
    def waiting_pulls(self) -> int:
        """The number of pulls that wait for a message."""
        return len(self._running.waiting)

    @property
    def waiting_pops(self) -> int:
        """The number of pops, and of questions about them, that wait for a message."""
        return 0 if self._waiting_pops is None else len(self._waiting_pops)

    @property
    def consumers(self) -> dict[str, int]:
        """The number of connected consumers of each group that has any."""
        return self._running.clients.consumer_counts()

    @property
    def _running(self) -> BrokerState:
        if self._state is None:
            raise RuntimeError("The broker service is not running.")
        return self._state

    async def start(self) -> None:
        """Open the store (recovering it if need be) and begin to serve.

        Raises OSError if a port is taken or certificates or users cannot be read, StoreLocked or StoreUnsupported if
        the store cannot be opened.
        """
        certificates = None if self._protection.tls is None else Certificates(self._protection.tls, self._live_clock)
        broker_socket, vip_socket, namesrv_socket = self._bind()
        try:
            if self._broker_port == 0:
                self.config = replace(self.config, port=broker_socket.getsockname()[1])
            self._namesrv_port = namesrv_socket.getsockname()[1]
            engine = self._open()
            try:
                broker, namesrv = self._assemble(engine, certificates)
            except OSError:
                engine.close(self._clock())
                raise
        except BaseException:
            for each in (broker_socket, vip_socket, namesrv_socket):
                if each is not None:
                    each.close()
            raise
        if self._is_alone:
            tune_interpreter()
        await namesrv.start(namesrv_socket)
        await broker.start(broker_socket)
        await self._start_vip(broker, vip_socket)
        if self._registrar is not None:
            self._registrar.start()
        self._sweep()
        sweep_all(self._running)
        if self._self_test is not None:
            self._self_test.start()
        if self._simulator is not None:
            self._simulator.keep()
        logger.log(
            logging.INFO if self._is_alone else logging.DEBUG,
            "broker %s serves %s, name service %s", self.config.broker_name, self.address, self.namesrv_address,
        )  # fmt: skip

    def _bind(self) -> tuple[socket.socket, socket.socket | None, socket.socket]:
        """Return the sockets of the broker, of its VIP channel and of the name service; raises OSError."""
        namesrv = bound(self._listen_host, self._namesrv_port)
        try:
            if not self._is_vip_served:
                return bound(self._listen_host, self._broker_port), None, namesrv
            return *bound_pair(self._listen_host, self._broker_port, namesrv.getsockname()[1]), namesrv
        except OSError:
            namesrv.close()
            raise

    async def _start_vip(self, broker: Server, listening: socket.socket | None) -> None:
        """Serve the broker on a second port, too; if another program was quicker, go on without."""
        if listening is None:
            return
        port: int = listening.getsockname()[1]
        try:
            await broker.start(listening)
        except OSError as error:
            listening.close()
            no_vip_channel(port, error)
        else:
            self._vip_port = port

    def _open(self) -> Engine:
        files = self._files or OsFiles()
        if self._simulation is not None:
            self._simulator = Simulator(self._simulation, files, self.config.root, self._live_clock)
            self._clock = self._simulator.clock
            self.config = replace(self.config, is_simulated=True)
        return Engine.open(self.config, files, self._clock())

    def _assemble(self, engine: Engine, certificates: Certificates | None) -> tuple[Server, Server]:
        """Make everything that serves the engine, each part with all that it calls; raises AccessUnreadable, OSError.

        What may fail comes first: the pump has threads.
        """
        live = self._live_clock
        if self._protection.access is not None:
            self._gate = guard(engine, self._files or OsFiles(), self._protection.access, self._connections)
        kept = KeptSettings(engine)
        config = kept.restore()
        speed = None if self._simulation is None else self._simulation.speed
        pump = self._pump = Pump(
            engine, self._clock, stored=self._stored, arrived=self._arrived, failed=self._failed,
            is_inline=config.flush == "async", speed=speed or 1.0,
        )  # fmt: skip
        shared = Shared.within(self._limits, lambda: pump.sync_ms)
        state = self._state = BrokerState(
            engine=engine, config=config, clock=self._clock, live_clock=live, started_ms=self._clock(), speed=speed,
            waiting=WaitingPulls(asyncio.get_running_loop(), live),
            registered=lambda: self.registered,
            hurry=pump.hurry, kick=pump.kick, at_rest=pump.at_rest,
            may_send=self._gate.may_send if self._gate is not None else lambda _connection, _topic: True,
            # a message's times are those of the broker's clock
            sends=Sends(shared.slow if speed is None else None),
        )  # fmt: skip
        administration = self._administration = AdministrationLog(self._files or OsFiles(), config.root, live)
        administration.load()
        broker = self._broker_server(state, kept, shared, certificates, administration)
        resident = ResidentBroker(state)
        names = self._names = name_service(state, resident, self._namesrv_port)
        namesrv = Server(
            "name service", administration.noted(names.handlers()), live, self._limits,
            Hooks(gate=self._gate, connection=front(certificates), closed=(names.connection_ended,)), shared,
        )  # fmt: skip
        self._registrar = self._registrations(engine, resident)
        self._servers = [broker, namesrv]
        pump.start()
        self._check_rounds = CheckRounds(state, pump.kick, pump.is_writing)
        self._check_rounds.start()
        return broker, namesrv

    def _registrations(self, engine: Engine, resident: ResidentBroker) -> Registrar:
        topics = engine.topics
        told = Told(resident.cluster, resident.broker_name, resident.broker_id, resident.address)
        return Registrar(
            self._register_at, told,
            lambda: DataVersion(topics.data_version, topics.changed_ms),
            resident.registered,
        )  # fmt: skip

    def _broker_server(
        self,
        state: BrokerState,
        kept: KeptSettings,
        shared: Shared,
        certificates: Certificates | None,
        administration: AdministrationLog,
    ) -> Server:
        transactions, acks = TransactionProcessor(state), AckProcessor(state)
        pop = PopProcessor(state, asyncio.get_running_loop())
        if self._gate is None:
            also: dict[int, Express] = {
                Request.END_TRANSACTION: transactions.express,
                Request.ACK_MESSAGE: acks.express,
            }
            send = SendProcessor(state, also)
        else:
            send = SendProcessor(state, passes=self._gate.passes)
        self._waiting_pops = pop.waiting
        schedule = ScheduleProcessor(state)
        self._told_of_arrivals = schedule.arrived
        processors: list[Processor] = [
            send, PullProcessor(state), OffsetProcessor(state), HeartbeatProcessor(state), LockProcessor(state),
            TopicProcessor(state), DeletionProcessor(state, administration.answered), GroupProcessor(state),
            QueryProcessor(state), schedule, BrokerProcessor(state, shared.places), transactions, TimerProcessor(state),
            ConfigurationProcessor(state, kept, Doors(self._gate is not None, certificates is not None)),
            ProgressProcessor(state), ClientQueryProcessor(state),
            ResetProcessor(state), CleanupProcessor(state), pop, acks, AssignmentProcessor(state),
            ReplyProcessor(state, send), administration, self._tests(state),
        ]  # fmt: skip
        if self._gate is not None:
            processors.append(AccessProcessor(self._gate.table))
        handlers: dict[int, Handler] = {}
        for processor in processors:
            handlers.update(processor.handlers())

        def take_held(connection: Connection, now_ms: int) -> None:
            send.take_held(connection, now_ms)
            transactions.take_held(connection, now_ms)
            acks.take_held(connection, now_ms)

        metrics = BrokerMetrics(state, lambda: self.servers, lambda: self.waiting_pops)
        pages = Pages(lambda: state.engine.health().state, metrics.text, token=self._protection.metrics_token)
        hooks = Hooks(
            # the short way takes the moment of the read, which is the live clock's, for the store's
            express=send.express if self._clock is self._live_clock else None,
            held=take_held,
            gate=self._gate,
            connection=front(certificates, pages),
            answered=state.calls.answer,
            after_read=state.kick,
            closed=(state.clients.remove_connection, state.calls.remove_connection),
        )
        return Server("broker", administration.noted(handlers), self._live_clock, self._limits, hooks, shared)

    def _tests(self, state: BrokerState) -> SelfTest:
        self._self_test = SelfTest(
            state.engine, self._files or OsFiles(), self._clock, is_on=self._has_self_test, speed=state.speed or 1.0
        )
        return self._self_test

    def _connections(self) -> Iterator[Connection]:
        return (connection for server in self._servers for connection in server.connections)

    def _stored(self, tickets: list[Ticket]) -> None:
        self._running.sends.stored(tickets, self._clock())
        self._replies.write(tickets)

    def _arrived(self, arrivals: set[tuple[str, int]]) -> None:
        state = self._running
        state.statistics.arrived(arrivals, self._clock())
        if self._count_timer is None:
            self._count_timer = asyncio.get_running_loop().call_later(COUNT_EVERY_S, self._count)
        state.waiting.wake(arrivals)
        if self._waiting_pops is not None:
            self._waiting_pops.wake(arrivals)
        if self._told_of_arrivals is not None:
            self._told_of_arrivals()

    def _count(self) -> None:
        self._count_timer = None
        self._running.statistics.count()

    def _failed(self, reason: str, lost: list[Ticket]) -> None:
        self._replies.refuse(lost, f"The message may be lost: {reason}.")
        if self._on_failed is not None:
            self._on_failed(reason)

    def _sweep(self) -> None:
        interval_ms = self._limits.sweep_interval_ms
        self._sweep_timer = asyncio.get_running_loop().call_later(interval_ms / 1000, self._sweep)
        for server in self._servers:
            server.sweep(self._live_clock())
        if self._names is not None:
            self._names.expire(self._live_clock())
        broker = self._servers[0]
        broker.places.recount(self._live_clock())
        if broker.budget.freed_bytes - self._freed_bytes >= WORTH_TRIMMING_BYTES:
            self._freed_bytes = broker.budget.freed_bytes
            give_back()
        if self._gate is not None:
            self._gate.unauthenticated.sweep(self._live_clock())

    async def settle(self) -> int | None:
        """Release all that is due by the broker's clock; return, when it can be read, at what moment more will be.

        For who moves that clock by hand. Raises RuntimeError if the broker is not running.
        """
        if self._pump is None:
            raise RuntimeError("The broker service is not running.")
        return await self._pump.settle()

    def look_again(self) -> None:
        """Answer pops that wait for a moment of the broker's clock, if it has come."""
        if self._waiting_pops is not None:
            self._waiting_pops.look_again()

    def ask_producers(self) -> int:
        """Ask producers about the halves for which it is time by the broker's clock; return about how many.

        What comes of it comes later, as answers.
        """
        return 0 if self._check_rounds is None else self._check_rounds.ask(MOST_ASKED)

    def levels_changed(self, levels: str) -> None:
        """Keep in the administration log that a signal changed what is logged."""
        if self._administration is not None and self._pump is not None:
            self._administration.levels_changed(levels)

    async def stop(self, timeout_s: float = 10) -> None:
        """Take nothing new, answer what was asked, close connections and store; stopping twice is fine."""
        state, pump = self._state, self._pump
        if state is None or pump is None:
            return
        self._pump = None
        for timer in (self._sweep_timer, self._count_timer):
            if timer is not None:
                timer.cancel()
        if self._check_rounds is not None:
            self._check_rounds.stop()
        if self._self_test is not None:
            self._self_test.stop()
        began_s = asyncio.get_running_loop().time()
        if self._registrar is not None:
            await self._registrar.stop()
        timeout_s -= asyncio.get_running_loop().time() - began_s
        for server in self._servers:
            server.stop_accepting()
            server.stop_reading()
        try:
            async with asyncio.timeout(timeout_s):
                await pump.drain()
        except TimeoutError:
            logger.error("stopping: the disk did not take the last messages within %g s", timeout_s)
        state.waiting.release_all()
        if self._waiting_pops is not None:
            self._waiting_pops.release_all()
        for server in self._servers:
            server.close_connections()
        pump.stop()
        try:
            now_ms = self._clock()
            if self._simulator is not None:
                self._simulator.stop(now_ms)
            state.engine.close(now_ms)
        finally:
            for server in self._servers:
                server.abort_connections()
            self._servers = []
