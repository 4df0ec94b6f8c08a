"""Every decoder of what others write is in the table of those that are fuzzed."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.fuzz.decoders import DECODERS
from tests.house.sources import ROOT, own_python, tree

IS_DECODER = re.compile(r"(decode|parse|unpack|split|read|members)(_\w+)?\Z").match
RAW = {"bytes", "str", "str | None", "bytes | str", "IO[bytes]"}
#: what is called so and decodes nothing of others, and what stands in the table as part of another decoder
OTHERS = {
    "broker.rocketmq.message.unpack_host": "part of message.decode",
    "broker.rocketmq.sql92_nodes.read_whole": "part of sql92.parse",
    "broker.rocketmq.sql92_nodes.read_double": "part of sql92.parse",
    "console.features.audit.administration.read_broker": "asks a broker",
    "console.features.dead_letters.pages.read_dead_letters": "asks the database",
    "console.features.redisson.read.read_queues": "asks Redis",
    "console.features.redisson.read.read_queue": "asks Redis",
    "console.rest.request_body.decode": "msgspec, beneath every request of REST (tests/console/rest)",
    "broker.log_lines.read_levels": "a setting of the program itself",
    "broker.tasks.configuration.read_options": "settings of the program itself",
    "spark.cluster_options.parse_edge": "an option of the caller's own job",
}


@cache
def found_decoders() -> frozenset[str]:
    """Public functions whose name says that they decode, and whose first argument is bytes or a text."""
    found = set()
    for path in own_python():
        module = path.relative_to(ROOT).with_suffix("").parts
        if module[0] not in ("broker", "console", "spark"):
            continue
        for node in tree(path).body:
            if isinstance(node, ast.FunctionDef) and IS_DECODER(node.name) and node.args.args:
                annotation = node.args.args[0].annotation
                if annotation is not None and ast.unparse(annotation) in RAW:
                    found.add(".".join((*module, node.name)))
    return frozenset(found)


def test_every_decoder_is_fuzzed() -> None:
    table = {decoder.name for decoder in DECODERS}
    assert found_decoders() - table - OTHERS.keys() == set()


def test_no_exception_is_of_what_is_not_there() -> None:
    assert OTHERS.keys() <= found_decoders()
