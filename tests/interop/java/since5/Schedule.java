import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;

/**
 * Sends timers with DefaultMQProducer as standard input asks, one request a line, fields parted by tabs:
 * send topic body keys timing(name=value,...) count | recall topic handle | delete topic key due-ms.
 * Timings: sec, ms, at (Message's own setters), level, and property names as they are. Message i of a request with a
 * count above 1 has the body "body-i". Answers one JSON line a request, of many messages the last one's.
 */
public final class Schedule {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(args[1]);
        producer.setNamesrvAddr(args[0]);
        producer.setInstanceName(args[1]);
        producer.setSendMsgTimeout(15_000);
        producer.setMqClientApiTimeout(30_000);
        producer.start();
        new Json().put("event", "started").print();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            try {
                answer(producer, line.split("\t", -1)).print();
            } catch (Exception error) {
                Describe.failure(error).print();
            }
        }
        producer.shutdown();
    }

    private static Json answer(DefaultMQProducer producer, String[] fields) throws Exception {
        switch (fields[0]) {
            case "send" -> {
                return send(producer, fields);
            }
            case "recall" -> {
                return new Json().put("event", "recalled").put("msgId", producer.recallMessage(fields[1], fields[2]));
            }
            case "delete" -> {
                Message message = new Message(fields[1], "delete".getBytes(StandardCharsets.UTF_8));
                message.setDeliverTimeMs(Long.parseLong(fields[3]));
                MessageAccessor.putProperty(message, MessageConst.PROPERTY_TIMER_DEL_UNIQKEY, fields[2]);
                return describe(producer.send(message));
            }
            default -> throw new IllegalArgumentException(fields[0]);
        }
    }

    private static Json send(DefaultMQProducer producer, String[] fields) throws Exception {
        int count = Integer.parseInt(fields[5]);
        Json last = new Json();
        for (int i = 0; i < count; i++) {
            String body = count == 1 ? fields[2] : fields[2] + "-" + i;
            Message message = new Message(fields[1], body.getBytes(StandardCharsets.UTF_8));
            message.setTags("timer");
            if (!fields[3].isEmpty()) {
                message.setKeys(fields[3]);
            }
            for (String timing : fields[4].split(",")) {
                set(message, timing.substring(0, timing.indexOf('=')), timing.substring(timing.indexOf('=') + 1));
            }
            last = describe(producer.send(message));
        }
        return last;
    }

    private static void set(Message message, String name, String value) {
        switch (name) {
            case "sec" -> message.setDelayTimeSec(Long.parseLong(value));
            case "ms" -> message.setDelayTimeMs(Long.parseLong(value));
            case "at" -> message.setDeliverTimeMs(Long.parseLong(value));
            case "level" -> message.setDelayTimeLevel(Integer.parseInt(value));
            default -> MessageAccessor.putProperty(message, name, value);
        }
    }

    private static Json describe(SendResult result) {
        return new Json().put("event", "sent").put("status", result.getSendStatus().name())
            .put("msgId", result.getMsgId()).put("offsetMsgId", result.getOffsetMsgId())
            .put("queueId", result.getMessageQueue().getQueueId()).put("queueOffset", result.getQueueOffset())
            .put("handle", result.getRecallHandle());
    }
}
