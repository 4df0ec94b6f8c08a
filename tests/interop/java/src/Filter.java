import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends messages with properties, and reads them with SQL92 filters: name server. A request a line, fields parted by
 * tabs: send topic body name=value... (to queue 0); pull topic expression (queue 0, all of it);
 * push group topic expression, lite group topic expression (from then on, one JSON line a message).
 */
public final class Filter {
    private static String namesrv;
    private static DefaultMQProducer producer;
    private static DefaultMQPullConsumer puller;

    public static void main(String[] args) throws Exception {
        namesrv = args[0];
        producer = new DefaultMQProducer("producers");
        Reach.by(producer, namesrv);
        producer.start();
        puller = new DefaultMQPullConsumer("pullers");
        Reach.by(puller, namesrv);
        puller.start();
        new Json().put("event", "started").print();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            try {
                answer(line.split("\t", -1)).print();
            } catch (Exception error) {
                Describe.failure(error).print();
            }
        }
        System.exit(0);
    }

    private static Json answer(String[] fields) throws Exception {
        switch (fields[0]) {
            case "send":
                Message message = new Message(fields[1], fields[2].getBytes(StandardCharsets.UTF_8));
                for (int i = 3; i < fields.length; i++) {
                    String[] pair = fields[i].split("=", 2);
                    message.putUserProperty(pair[0], pair[1]);
                }
                producer.send(message, (queues, m, index) -> queues.get(0), 0);
                return new Json().put("event", "sent");
            case "pull":
                return new Json().put("event", "pulled").put("bodies", String.join(" ", pull(fields[1], fields[2])));
            case "push":
                push(fields[1], fields[2], fields[3]);
                return new Json().put("event", "consuming");
            case "lite":
                lite(fields[1], fields[2], fields[3]);
                return new Json().put("event", "consuming");
            default:
                throw new IllegalArgumentException(fields[0]);
        }
    }

    private static List<String> pull(String topic, String expression) throws Exception {
        List<String> bodies = new ArrayList<>();
        puller.fetchSubscribeMessageQueues(topic);
        // which version a broker is, and so whether it filters, a client learns from the answer to its heartbeat
        puller.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory().sendHeartbeatToAllBrokerWithLock();
        MessageQueue queue = new MessageQueue(topic, "broker-a", 0);
        long offset = 0;
        while (true) {
            PullResult result = puller.pull(queue, MessageSelector.bySql(expression), offset, 32);
            for (MessageExt message : result.getMsgFoundList() == null ? List.<MessageExt>of() : result.getMsgFoundList()) {
                bodies.add(new String(message.getBody(), StandardCharsets.UTF_8));
            }
            if (result.getNextBeginOffset() <= offset) {
                return bodies;
            }
            offset = result.getNextBeginOffset();
        }
    }

    private static void push(String group, String topic, String expression) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        Reach.by(consumer, namesrv);
        consumer.setInstanceName(group);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, MessageSelector.bySql(expression));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> Describe.message(message).put("group", group).print());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    private static void lite(String group, String topic, String expression) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        Reach.by(consumer, namesrv);
        consumer.setInstanceName(group);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, MessageSelector.bySql(expression));
        consumer.start();
        Thread reading = new Thread(() -> {
            while (true) {
                for (MessageExt message : consumer.poll(1_000)) {
                    Describe.message(message).put("group", group).print();
                }
            }
        });
        reading.setDaemon(true);
        reading.start();
    }
}
