import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Stores a number of messages in batches: name server, topic, count, threads, batch, body size, delay level (0 none). */
public final class Fill {
    public static void main(String[] args) throws Exception {
        long count = Long.parseLong(args[2]);
        int threads = Integer.parseInt(args[3]);
        int batch = Integer.parseInt(args[4]);
        int level = Integer.parseInt(args[6]);
        byte[] body = "x".repeat(Integer.parseInt(args[5])).getBytes();
        DefaultMQProducer producer = new DefaultMQProducer("fill");
        Reach.by(producer, args[0]);
        producer.start();
        new Json().put("event", "started").print();
        AtomicLong left = new AtomicLong(count);
        AtomicLong failed = new AtomicLong();
        long beginMs = System.currentTimeMillis();
        ExecutorService workers = Executors.newFixedThreadPool(threads);
        for (int i = 0; i < threads; i++) {
            workers.submit(() -> {
                while (left.getAndAdd(-batch) > 0) {
                    try {
                        producer.send(messages(args[1], body, batch, level));
                    } catch (Exception error) {
                        failed.addAndGet(batch);
                        Describe.failure(error).print();
                    }
                }
            });
        }
        workers.shutdown();
        workers.awaitTermination(1, TimeUnit.HOURS);
        new Json().put("event", "filled").put("count", count - failed.get())
            .put("elapsedMs", System.currentTimeMillis() - beginMs).print();
        producer.shutdown();
    }

    private static List<Message> messages(String topic, byte[] body, int batch, int level) {
        List<Message> messages = new ArrayList<>(batch);
        for (int i = 0; i < batch; i++) {
            Message message = new Message(topic, body);
            if (level > 0) {
                message.setDelayTimeLevel(level);
            }
            messages.add(message);
        }
        return messages;
    }
}
