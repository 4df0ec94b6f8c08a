import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * One user's producer and consumers, each request signed: name server, access key, secret key (empty: unsigned).
 * A request a line, fields parted by tabs: send topic body; consume group topic (by push, from then on);
 * pull group topic broker queue offset. Answers one JSON line each, and one a message.
 */
public final class Signed {
    private static String namesrv;
    private static RPCHook hook;
    private static DefaultMQProducer producer;
    private static int clients;

    public static void main(String[] args) throws Exception {
        namesrv = args[0];
        hook = args[1].isEmpty() ? null : new AclClientRPCHook(new SessionCredentials(args[1], args[2]));
        producer = new DefaultMQProducer("producers", hook);
        Reach.by(producer, namesrv);
        producer.setInstanceName("producer");
        producer.start();
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
        if (fields[0].equals("send")) {
            byte[] body = fields[2].getBytes(StandardCharsets.UTF_8);
            SendResult result = producer.send(new Message(fields[1], "tag", "key", body));
            return new Json().put("event", "sent").put("status", result.getSendStatus().name());
        }
        if (fields[0].equals("pull")) {
            return pull(fields);
        }
        consume(fields[1], fields[2]);
        return new Json().put("event", "consuming");
    }

    private static Json pull(String[] fields) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(fields[1], hook);
        Reach.by(consumer, namesrv);
        consumer.setInstanceName("puller" + clients++);
        consumer.start();
        try {
            MessageQueue queue = new MessageQueue(fields[2], fields[3], Integer.parseInt(fields[4]));
            PullResult result = consumer.pull(queue, "*", Long.parseLong(fields[5]), 32);
            List<MessageExt> found = result.getMsgFoundList();
            return new Json().put("event", "pulled").put("status", result.getPullStatus().name())
                .put("count", found == null ? 0 : found.size());
        } finally {
            consumer.shutdown();
        }
    }

    private static void consume(String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, hook, new AllocateMessageQueueAveragely());
        Reach.by(consumer, namesrv);
        consumer.setInstanceName("consumer" + clients++);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> Describe.message(message).print());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }
}
