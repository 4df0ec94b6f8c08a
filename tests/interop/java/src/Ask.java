import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Request and reply: name server. A request a line of standard input, fields parted by tabs:
 * ask topic body timeout-ms (prints the answer); answer group topic (from then on, each question with "echo " before it).
 */
public final class Ask {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("asking");
        Reach.by(producer, args[0]);
        producer.start();
        new Json().put("event", "started").print();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] fields = line.split("\t", -1);
            try {
                if (fields[0].equals("ask")) {
                    Message question = new Message(fields[1], fields[2].getBytes(StandardCharsets.UTF_8));
                    Message answer = producer.request(question, Long.parseLong(fields[3]));
                    new Json().put("event", "answered").put("topic", answer.getTopic())
                        .put("body", new String(answer.getBody(), StandardCharsets.UTF_8))
                        .put("properties", answer.getProperties()).print();
                } else {
                    answer(args[0], fields[1], fields[2], producer);
                    new Json().put("event", "answering").print();
                }
            } catch (Exception error) {
                Describe.failure(error).print();
            }
        }
        System.exit(0);
    }

    private static void answer(String namesrv, String group, String topic, DefaultMQProducer producer) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        Reach.by(consumer, namesrv);
        consumer.setInstanceName(group);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setPollNameServerInterval(1_000);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    String body = "echo " + new String(message.getBody(), StandardCharsets.UTF_8);
                    producer.send(MessageUtil.createReplyMessage(message, body.getBytes(StandardCharsets.UTF_8)), 3_000);
                } catch (Exception error) {
                    Describe.failure(error).put("answering", 1).print();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }
}
