import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.impl.ClientRemotingProcessor;
import org.apache.rocketmq.client.impl.mqclient.MQClientAPIExt;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.NotificationRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/**
 * Pops with the class by which RocketMQ's proxy asks its brokers. Arguments: broker address, broker name, group. One
 * request a line of standard input, fields parted by tabs:
 * pop topic queue count invisible-ms poll-ms order(true|false) expression attempt (an expression is tags, or sql:SQL92)
 * ack topic handle | ack-many topic handle,handle | change topic handle invisible-ms | notify topic poll-ms.
 * JSON lines; the last of each answer says "popped", "acked", "changed" or "notified".
 */
public final class PopByHand {
    private static final long TIMEOUT_MS = 30_000;
    private final String address;
    private final String broker;
    private final String group;
    private final MQClientAPIExt api;

    private PopByHand(String[] args) {
        address = args[0];
        broker = args[1];
        group = args[2];
        NettyClientConfig patient = new NettyClientConfig();
        patient.setConnectTimeoutMillis(30_000);
        api = new MQClientAPIExt(new ClientConfig(), patient, new ClientRemotingProcessor(null), null);
        api.start();
    }

    public static void main(String[] args) throws Exception {
        PopByHand hand = new PopByHand(args);
        new Json().put("event", "started").print();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] fields = line.split("\t", -1);
            CompletableFuture.runAsync(() -> {
                try {
                    hand.answer(fields).print();
                } catch (Exception error) {
                    Describe.failure(error.getCause() == null ? error : error.getCause()).print();
                }
            });
        }
        hand.api.shutdown();
    }

    private Json answer(String[] fields) throws Exception {
        switch (fields[0]) {
            case "pop" -> {
                return pop(fields);
            }
            case "ack" -> {
                return say("acked", wait(api.ackMessageAsync(address, ack(fields[1], fields[2]), TIMEOUT_MS)));
            }
            case "ack-many" -> {
                List<String> handles = Arrays.asList(fields[2].split(","));
                return say("acked", wait(api.batchAckMessageAsync(address, fields[1], group, handles, TIMEOUT_MS)));
            }
            case "change" -> {
                return change(fields);
            }
            case "notify" -> {
                return notified(fields);
            }
            default -> throw new IllegalArgumentException(fields[0]);
        }
    }

    private static <T> T wait(CompletableFuture<T> future) throws Exception {
        return future.get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
    }

    private Json pop(String[] fields) throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(fields[1]);
        header.setQueueId(Integer.parseInt(fields[2]));
        header.setMaxMsgNums(Integer.parseInt(fields[3]));
        header.setInvisibleTime(Long.parseLong(fields[4]));
        header.setPollTime(Long.parseLong(fields[5]));
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(0);
        header.setOrder(Boolean.parseBoolean(fields[6]));
        boolean isSql = fields[7].startsWith("sql:");
        header.setExpType(isSql ? "SQL92" : "TAG");
        header.setExp(isSql ? fields[7].substring(4) : fields[7]);
        header.setAttemptId(fields[8].isEmpty() ? null : fields[8]);
        PopResult result = wait(api.popMessageAsync(address, broker, header, TIMEOUT_MS));
        List<MessageExt> found = result.getMsgFoundList() == null ? List.of() : result.getMsgFoundList();
        for (MessageExt message : found) {
            Describe.message(message).put("handle", message.getProperty(MessageConst.PROPERTY_POP_CK)).print();
        }
        return new Json().put("event", "popped").put("status", result.getPopStatus().name())
            .put("count", found.size()).put("rest", result.getRestNum());
    }

    private AckMessageRequestHeader ack(String topic, String handle) {
        String[] parts = ExtraInfoUtil.split(handle);
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(ExtraInfoUtil.getRealTopic(parts, topic, group));
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setExtraInfo(handle);
        return header;
    }

    private Json change(String[] fields) throws Exception {
        String[] parts = ExtraInfoUtil.split(fields[2]);
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(ExtraInfoUtil.getRealTopic(parts, fields[1], group));
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setExtraInfo(fields[2]);
        header.setInvisibleTime(Long.parseLong(fields[3]));
        return say("changed", wait(api.changeInvisibleTimeAsync(address, broker, header, TIMEOUT_MS)));
    }

    private Json notified(String[] fields) throws Exception {
        NotificationRequestHeader header = new NotificationRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(fields[1]);
        header.setQueueId(-1);
        header.setPollTime(Long.parseLong(fields[2]));
        header.setBornTime(System.currentTimeMillis());
        boolean has = wait(api.notification(address, header, TIMEOUT_MS));
        return new Json().put("event", "notified").put("has", has ? 1 : 0);
    }

    private static Json say(String event, AckResult result) {
        return new Json().put("event", event).put("status", result.getStatus().name()).put("handle", result.getExtraInfo());
    }
}
