import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends with DefaultMQProducer what standard input asks for, one request a line, fields parted by tabs:
 * kind (sync, oneway, batch), topic, tag, keys, delay level, queue (-1 any), count, body.
 * Message i of a request with a count above 1 has the body "body-i". Answers one JSON line a request.
 */
public final class Produce {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(args[1]);
        Reach.by(producer, args[0]);
        producer.setInstanceName(args[1]);
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
        List<Message> messages = messages(fields);
        int queue = Integer.parseInt(fields[5]);
        if (fields[0].equals("batch")) {
            return describe(producer.send(messages));
        }
        Json last = new Json().put("event", "sent").put("status", "ONEWAY");
        for (Message message : messages) {
            if (fields[0].equals("oneway")) {
                producer.sendOneway(message);
            } else if (queue >= 0) {
                last = describe(producer.send(message, (queues, m, index) -> queues.get((int) index), queue));
            } else {
                last = describe(producer.send(message));
            }
        }
        return last;
    }

    private static List<Message> messages(String[] fields) {
        int count = Integer.parseInt(fields[6]);
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            String body = count == 1 ? fields[7] : fields[7] + "-" + i;
            Message message = new Message(fields[1], body.getBytes(StandardCharsets.UTF_8));
            if (!fields[2].isEmpty()) {
                message.setTags(fields[2]);
            }
            if (!fields[3].isEmpty()) {
                message.setKeys(fields[3]);
            }
            if (!fields[4].equals("0")) {
                message.setDelayTimeLevel(Integer.parseInt(fields[4]));
            }
            message.putUserProperty("number", Integer.toString(i));
            messages.add(message);
        }
        return messages;
    }

    private static Json describe(SendResult result) {
        return new Json().put("event", "sent").put("status", result.getSendStatus().name())
            .put("msgId", result.getMsgId()).put("offsetMsgId", result.getOffsetMsgId())
            .put("brokerName", result.getMessageQueue().getBrokerName())
            .put("queueId", result.getMessageQueue().getQueueId()).put("queueOffset", result.getQueueOffset());
    }
}
