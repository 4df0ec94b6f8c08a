import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Receives with DefaultMQPushConsumer (clustering) until standard input ends: name server, group, topic, expression,
 * mode (concurrent, orderly, reject-N: the first N deliveries of each message are answered RECONSUME_LATER, reject-all:
 * all are, and none is to be retried),
 * instance name. Prints one JSON line a message and one whenever the assigned queues change. Heartbeats come each
 * second: Apache RocketMQ refuses pulls whose subscription is newer than the last heartbeat (code 25).
 */
public final class Consume {
    private static Set<Long> assigned = Set.of();

    public static void main(String[] args) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        Reach.by(consumer, args[0]);
        consumer.setInstanceName(args[5]);
        consumer.setPollNameServerInterval(1_000);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setAwaitTerminationMillisWhenShutdown(5_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[2], args[3]);
        if (args[4].equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(Consume::print);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            if (args[4].equals("reject-all")) {
                consumer.setMaxReconsumeTimes(0);
            }
            int rejected = args[4].equals("reject-all") ? Integer.MAX_VALUE : 
                args[4].startsWith("reject-") ? Integer.parseInt(args[4].substring(7)) : 0;
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(Consume::print);
                return messages.get(0).getReconsumeTimes() < rejected
                    ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        new Json().put("event", "started").print();
        ScheduledExecutorService watch = Executors.newSingleThreadScheduledExecutor();
        watch.scheduleAtFixedRate(() -> watch(consumer, args[2]), 100, 100, TimeUnit.MILLISECONDS);
        while (System.in.read() >= 0) {
            continue;
        }
        watch.shutdownNow();
        consumer.shutdown();
    }

    private static void print(MessageExt message) {
        Describe.message(message).print();
    }

    private static void watch(DefaultMQPushConsumer consumer, String topic) {
        Set<Long> now = consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()
            .stream().filter(queue -> queue.getTopic().equals(topic)).map(queue -> (long) queue.getQueueId())
            .collect(Collectors.toCollection(TreeSet::new));
        if (!now.equals(assigned)) {
            assigned = now;
            new Json().put("event", "queues").put("queues", now).print();
        }
    }
}
