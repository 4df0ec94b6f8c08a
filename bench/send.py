"""RocketMQ's own benchmark producer on our broker: plain, with access control, with TLS, with traces, in turn."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from bench.memory import fill
from bench.peers import SIZES, work_directory
from bench.producers import PLAIN, REPORT_MS, SKIP, TAKE, Turn, client_us_of, processor_us_of, rate_of, turn
from bench.results import Row, Section, verdict
from tests.interop.guarded import ROOT, GuardedEscapement
from tests.interop.servers import EscapementServer, StoreShape

TITLE = "Sends with access control, TLS, traces"
DEFINITION = (
    "`org.apache.rocketmq.example.benchmark.Producer -w 64 -s 128` (64 threads, one message of 128 bytes a request, "
    "one connection, binary headers) on brokers of ours, flush async: one as it is; one with access control, where "
    "each send is signed by one who may do everything; one with TLS (a certificate of its own); and the first one "
    "again by a producer that traces (`-m true`: what it tells of its sends is sent as well). All run all the time; "
    "the producer goes round {turns} times, free memory filled anew before each turn. It reports each {report} s; the "
    "first {skip} reports of a turn are warm-up, {take} count, medians. *A send*: processor time of the broker's "
    "process, user and system."
)


class WithTls(EscapementServer):
    """Our broker with a certificate that nobody else made."""

    def prepare(self) -> None:
        """As every server; and write a certificate that no authority of the machine signed."""
        super().prepare()
        certificate = self.work / "certificate.pem"
        trustme.CA().issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(certificate)
        self.more_arguments = ("--tls-cert", str(certificate))


@dataclass(frozen=True, slots=True)
class Case:
    """A way to send: the broker, what the producer and its Java are told, the share of plain sends that is wanted."""

    name: str
    server: type[EscapementServer]
    more: tuple[str, ...] = ()
    java: tuple[str, ...] = ()
    share: float = 0


CASES = (
    Case("plain", EscapementServer),
    Case("with access control", GuardedEscapement, ("-a", "true", "-ak", ROOT[0], "-sk", ROOT[1]), share=0.9),
    Case("with TLS", WithTls, java=("-Dtls.enable=true",), share=0.7),
    Case("with traces", EscapementServer, ("-m", "true"), share=0.8),
)


@contextmanager
def started(base: Path) -> Iterator[dict[type[EscapementServer], EscapementServer]]:
    """Start one broker of each kind."""
    with ExitStack() as stack:
        servers: dict[type[EscapementServer], EscapementServer] = {}
        for kind in dict.fromkeys(case.server for case in CASES):
            directory = base / kind.__name__
            server = servers[kind] = kind(directory / "store", directory / "work", StoreShape(**SIZES, flush="async"))
            stack.callback(server.kill)
            server.start()
        yield servers


def measure(options: Namespace, at: str) -> Section:
    """Measure all cases; `options.quick` makes turns short."""
    turns, skip, take = (1, 1, 1) if options.quick else (2, SKIP, TAKE)
    taken: dict[str, list[Turn]] = {case.name: [] for case in CASES}
    with work_directory() as base, started(base) as servers:
        for _ in range(turns):
            for case in CASES:
                server = servers[case.server]
                fill(base)
                taken[case.name].append(turn(PLAIN, server, base, skip=skip, take=take, more=case.more, java=case.java))
    plain = rate_of(taken["plain"])
    rows = [row(case, taken[case.name], plain) for case in CASES]
    notes = [f"{name}: reports {[round(rate) for one in of_it for rate in one.rates]}" for name, of_it in taken.items()]
    notes += [
        f"{name}: {failed:,} sends failed"
        for name, of_it in taken.items()
        if (failed := sum(one.failed for one in of_it))
    ]
    definition = DEFINITION.format(turns=turns, report=REPORT_MS // 1000, skip=skip, take=take)
    columns = ("sends/s", "broker, a send", "client, a send", "share of plain", "wanted", "holds")
    return Section("send", TITLE, definition, "python -m bench send", at, rows, notes, columns=columns)


def row(case: Case, turns: list[Turn], plain: float) -> Row:
    """Return the row of a case, its rate as a share of plain sends."""
    rate = rate_of(turns)
    share = rate / plain
    wanted, holds = (f">= {case.share}", share >= case.share) if case.share else ("", None)
    cells = (
        f"{rate:,.0f}", f"{processor_us_of(turns):.0f} us", f"{client_us_of(turns):.0f} us",
        f"{share:.2f}" if wanted else "", wanted, verdict(holds),
    )  # fmt: skip
    return Row(case.name, "", holds=holds, cells=cells)
