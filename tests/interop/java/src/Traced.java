import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** Sends one message and consumes it, both with tracing: name server, group, topic. Ends with standard input. */
public final class Traced {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(args[1] + "-sending", true, null);
        Reach.by(producer, args[0]);
        producer.start();
        new Json().put("event", "started").print();
        SendResult sent = producer.send(new Message(args[2], "tag", "key", "traced".getBytes(StandardCharsets.UTF_8)));
        new Json().put("event", "sent").put("msgId", sent.getMsgId()).print();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1], true, null);
        Reach.by(consumer, args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[2], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> Describe.message(message).print());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        while (System.in.read() >= 0) {
            continue;
        }
        consumer.shutdown();
        producer.shutdown();
    }
}
