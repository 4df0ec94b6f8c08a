import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Receives with DefaultMQPushConsumer in POP mode (queues assigned by the broker) until standard input ends: name
 * server, broker address, group, topic, expression, mode (accept, or reject-N: the first N deliveries of each message
 * are answered RECONSUME_LATER), instance name. The group is switched to popping before it starts, as RocketMQ's own
 * example does. Prints one JSON line a message.
 */
public final class PopConsume {
    public static void main(String[] args) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(args[0]);
        admin.setInstanceName("admin-" + args[6]);
        admin.start();
        admin.setMessageRequestMode(args[1], args[3], args[2], MessageRequestMode.POP, 0, 10_000);
        admin.shutdown();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setInstanceName(args[6]);
        consumer.setPollNameServerInterval(1_000);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setClientRebalance(false);
        consumer.setPopInvisibleTime(5_000);
        consumer.subscribe(args[3], args[4]);
        int rejected = args[5].startsWith("reject-") ? Integer.parseInt(args[5].substring(7)) : 0;
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> Describe.message(message).print());
            return messages.get(0).getReconsumeTimes() < rejected
                ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        new Json().put("event", "started").print();
        while (System.in.read() >= 0) {
            continue;
        }
        consumer.shutdown();
    }
}
