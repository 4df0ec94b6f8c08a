"""What mqadmin is run for, in order, and what must be alike. `{names}` are those of `test_mqadmin.py`.

same      the same text
outline   the same but for whole numbers
heads     the same headings, the lines that begin with #
covers    the names at the beginnings of its lines: ours are all among theirs
own       it says something else here, on purpose; the words that are to be in it
"""

from __future__ import annotations

from dataclasses import dataclass

SAME, OUTLINE, HEADS, COVERS = "same", "outline", "heads", "covers"
OURS_ONLY = frozenset(
    {
        *("brokerVersion", "healthReasons", "healthState"),
        *("RMQ_SYS_TRACE_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "rmq_sys_esc_checks", "rmq_sys_esc_pops"),
    }
)


@dataclass(frozen=True, slots=True)
class Step:
    """One command; `own` are the words of our own answer."""

    line: str
    likeness: str = SAME
    own: str = ""
    timeout_s: int = 30

    @property
    def name(self) -> str:
        """The subcommand."""
        return self.line.split()[0]


def _same(*lines: str) -> list[Step]:
    return [Step(line) for line in lines]


def _outline(*lines: str) -> list[Step]:
    return [Step(line, OUTLINE) for line in lines]


POLICY = """'{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000]}}'"""

#: Changes nothing but what it is told to; run in one JVM.
STEPS = [
    # topics and groups
    *_same(
        "updateTopic -c DefaultCluster -t fifo -r 4 -w 4 -a +message.type=FIFO",
        "updateTopic -b {broker} -t ordered -r 2 -w 2 -o true",
        "updateTopicList -b {broker} -f {work}/topics.json",
        "updateTopicPerm -c DefaultCluster -t fifo -p 4",
        "updateTopicPerm -b {broker} -t fifo -p 6",
        "updateTopicPerm -b {broker} -t nowhere -p 6",
        "topicRoute -t orders",
        "topicRoute -t orders -l",
        "topicRoute -t nowhere",
        "topicStatus -t orders",
        "topicClusterList -t orders",
        "updateSubGroup -c DefaultCluster -g second",
        f"updateSubGroup -b {{broker}} -g patient -r 5 -q 2 -p {POLICY}",
        "updateSubGroupList -b {broker} -f {work}/groups.json",
        "getConsumerConfig -g readers",
        "getConsumerConfig -g patient",
        "getConsumerConfig -g nobody",
        "updateOrderConf -t orders -m put -v broker-a:4",
        "updateOrderConf -t orders -m get",
        "updateOrderConf -t orders -m delete",
        "updateOrderConf -t orders -m get",
        "allocateMQ -t orders -i 10.0.0.1,10.0.0.2",
    ),
    # messages
    *_same(
        "queryMsgById -t orders -i {offset_id}",
        "queryMsgById -t orders -i {unique_id}",
        "queryMsgByKey -t orders -k key-3",
        "queryMsgByKey -t orders -k paid -p T",
        "queryMsgByKey -t orders -k nothing",
        "queryMsgByUniqueKey -t orders -i {unique_id}",
        "queryMsgByUniqueKey -t orders -i {unique_id} -a",
        "queryMsgByUniqueKey -t orders -i {unique_id} -g readers -d {client}",
        "queryMsgByOffset -t orders -b broker-a -i 0 -o 0",
        "printMsgByQueue -t orders -a broker-a -i 0 -p true -f true",
        "printMsgByQueue -t orders -a broker-a -i 0 -p true -s unpaid",
    ),
    *_outline("printMsg -t orders", "printMsg -t orders -s paid -d true", "queryCq -t orders -q 0 -i 0 -c 5"),
    Step("queryCq -t orders -q 0 -i 0 -c 5 -b {broker} -g readers", OUTLINE),
    Step("queryCq -t orders -q 0 -i 0 -c 5 -b {broker} -g nobody", OUTLINE),
    # who is there, and how far
    *_same(
        "producerConnection -g writers -t orders",
        "producerConnection -g nobody -t orders",
        "consumerConnection -g readers",
        "consumerConnection -g nobody",
        "consumerProgress -g readers",
        "consumerProgress -g readers -t orders -s true",
        "consumerProgress -g nobody",
        "consumerProgress",
        "consumerStatus -g readers -b {broker}",
        "brokerConsumeStats -b {broker}",
        "brokerConsumeStats -b {broker} -o true",
    ),
    *_outline("consumerStatus -g readers", "producer -b {broker}"),
    Step("consumerStatus -g readers -i {client} -s", HEADS),
    # moving offsets
    *_same(
        "cloneGroupOffset -s readers -d second -t orders",
        "consumerProgress -g second -t orders",
        "cloneGroupOffset -s readers -d nobody -t orders",
        "resetOffsetByTime -g second -t orders -s 0",
        "consumerProgress -g second -t orders",
        "resetOffsetByTime -g second -t orders -s now",
        "resetOffsetByTime -g second -t orders -s now -b {broker} -q 0 -o 1",
        "resetOffsetByTime -g second -t orders -s 1000 -b {broker} -q 1",
        "consumerProgress -g second -t orders",
        "resetOffsetByTime -g second -t orders -s now -b {broker} -q 0 -o 99",
        "skipAccumulatedMessage -g second -t orders",
        "skipAccumulatedMessage -g nobody -t orders",
        "skipAccumulatedMessage -g second -t nowhere",
    ),
    # the broker
    Step("brokerStatus -b {broker}", COVERS),
    Step("brokerStatus -c DefaultCluster", COVERS),
    Step("getBrokerConfig -b {broker}", COVERS),
    Step("getBrokerConfig -c DefaultCluster", COVERS),
    Step("updateBrokerConfig -b {broker} -k fileReservedTime -v 50"),
    Step("updateBrokerConfig -c DefaultCluster -k transactionCheckMax -v 9"),
    Step("updateBrokerConfig -b {broker} -k nonsense -v 1", own="'nonsense' cannot be changed while the broker runs"),
    Step("updateBrokerConfig -b {broker} -k fileReservedTime -v soon", own="fileReservedTime is hours, above 0"),
    *_outline("clusterList", "clusterList -m", "haStatus -b {broker}", "haStatus -c DefaultCluster"),
    *_same(
        "cleanExpiredCQ -b {broker}",
        "cleanExpiredCQ -c DefaultCluster",
        "deleteExpiredCommitLog -b {broker}",
        "cleanUnusedTopic -b {broker}",
        "cleanUnusedTopic -c DefaultCluster",
    ),
    Step("statsAll -a -t orders", HEADS),
    Step("statsAll", COVERS),
    Step("topicList", COVERS),
    Step("topicList -c", COVERS),
    # the name service
    *_same(
        "updateKvConfig -s SPACE -k key -v value",
        "deleteKvConfig -s SPACE -k key",
        "deleteKvConfig -s SPACE -k key",
        "wipeWritePerm -b nobody",
    ),
    *_outline("wipeWritePerm -b broker-a"),
    *_same("topicRoute -t orders -l"),
    *_outline("addWritePerm -b broker-a"),
    *_same("topicRoute -t orders -l"),
    Step("getNamesrvConfig", COVERS),
    Step("updateNamesrvConfig -k productEnvName -v mine", own="no settings that can be changed while it runs"),
    # files
    *_same(
        "exportMetadata -c DefaultCluster -f {work}/export",
        "exportMetadata -b {broker} -t -f {work}/export",
        "exportMetadata -b {broker} -g -f {work}/export",
        "exportConfigs -c DefaultCluster -f {work}/export",
        "exportMetrics -c DefaultCluster -f {work}/export",
    ),
    # sending
    *_outline(
        "sendMsgStatus -b broker-a -s 128 -c 3",
        "checkMsgSendRT -t sent -a 3 -s 64",
        "sendMessage -t sent -p body -k key -c tag",
        "queryMsgById -t sent -i {sent_id} -g readers -s true",
        "consumeMessage -t orders -g pullers -b broker-a -i 0 -o 0 -c 2",
    ),
    # the end of them
    *_same(
        "deleteTopic -c DefaultCluster -t fifo",
        "topicRoute -t fifo",
        "deleteTopic -c DefaultCluster -t nowhere",
        "deleteSubGroup -b {broker} -g second",
        "deleteSubGroup -c DefaultCluster -g patient -r true",
        "deleteSubGroup -b {broker} -g nobody",
    ),
]

#: mqadmin keeps one producer a process, so a traced message needs another.
(TRACED,) = _outline("sendMessage -t sent -p traced -m true")

#: The second does not end by itself; the first ends when it has begun, and goes on in threads of its own.
ENDLESS = [Step("startMonitoring", timeout_s=30), Step("clusterRT -a 2 -s 64 -i 1", timeout_s=6)]
