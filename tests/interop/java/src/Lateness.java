import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends delayed messages at a steady rate and notes when each arrives in a push consumer's handler: name server, topic,
 * level, messages a second, seconds. Prints for each the offset in its lane, which tells when it was due, and the ms of
 * its arrival (0: never).
 */
public final class Lateness {
    private static final ConcurrentHashMap<String, Long> ARRIVED = new ConcurrentHashMap<>();
    private static final ConcurrentHashMap<String, Long> OFFSETS = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        long total = Long.parseLong(args[3]) * Long.parseLong(args[4]);
        DefaultMQProducer producer = new DefaultMQProducer("lateness");
        producer.setNamesrvAddr(args[0]);
        producer.setInstanceName("sender");
        producer.start();
        producer.send(new Message(args[1], new byte[] {1}));
        DefaultMQPushConsumer consumer = consumer(args[0], args[1]);
        new Json().put("event", "started").print();
        CountDownLatch ended = new CountDownLatch(1);
        AtomicLong sent = new AtomicLong();
        long perTick = Math.max(1, Long.parseLong(args[3]) / 200);
        ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
        clock.scheduleAtFixedRate(() -> {
            for (long i = 0; i < perTick && sent.get() < total; i++) {
                send(producer, args[1], Integer.parseInt(args[2]), sent.incrementAndGet());
            }
            if (sent.get() >= total) {
                ended.countDown();
            }
        }, 0, 1_000_000L * perTick / Long.parseLong(args[3]), TimeUnit.MICROSECONDS);
        ended.await();
        clock.shutdownNow();
        long deadlineMs = System.currentTimeMillis() + 30_000;
        CountDownLatch pause = new CountDownLatch(1);
        while (ARRIVED.size() < total && System.currentTimeMillis() < deadlineMs) {
            pause.await(100, TimeUnit.MILLISECONDS);
        }
        OFFSETS.forEach((id, offset) -> new Json().put("event", "late").put("offset", offset)
            .put("arrivedMs", ARRIVED.getOrDefault(id, 0L)).print());
        new Json().put("event", "end").put("sent", total).put("accepted", OFFSETS.size()).print();
        consumer.shutdown();
        producer.shutdown();
    }

    private static DefaultMQPushConsumer consumer(String namesrv, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("lateness-readers");
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("reader");
        consumer.subscribe(topic, "*");
        CountDownLatch first = new CountDownLatch(1);
        consumer.setConsumeFromWhere(
            org.apache.rocketmq.common.consumer.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long nowMs = System.currentTimeMillis();
            messages.forEach(message -> ARRIVED.putIfAbsent(message.getMsgId(), nowMs));
            first.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        first.await(60, TimeUnit.SECONDS);
        ARRIVED.clear();
        return consumer;
    }

    private static void send(DefaultMQProducer producer, String topic, int level, long number) {
        Message message = new Message(topic, ("late " + number).getBytes());
        message.setDelayTimeLevel(level);
        try {
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    OFFSETS.put(result.getMsgId(), result.getQueueOffset());
                }

                @Override
                public void onException(Throwable error) {
                    Describe.failure(error).print();
                }
            });
        } catch (Exception error) {
            Describe.failure(error).print();
        }
    }
}
