import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Loads a broker with plain messages and takes them: name server, broker address. One request a line of standard input,
 * fields parted by tabs; one JSON line an answer:
 * batch topic count size threads: messages in batches, from threads that wait for each answer.
 * drain topic group count pull|pop: everything in a topic from its first message on, by a new push consumer.
 * through topic group rate seconds warm-s: single messages at a steady rate; how long each is on its way to a consumer.
 */
public final class FlowLoad {
    private static final int BODY_BYTES = 128;
    private static final int WAIT_S = 180;
    private final DefaultMQProducer producer = new DefaultMQProducer("flow-sender");
    private final String namesrv;
    private final String broker;

    private FlowLoad(String namesrv, String broker) throws Exception {
        this.namesrv = namesrv;
        this.broker = broker;
        Reach.by(producer, namesrv);
        producer.start();
    }

    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            // the threads of a client go on without the one that asked for something
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        FlowLoad load = new FlowLoad(args[0], args[1]);
        new Json().put("event", "started").print();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] fields = line.split("\t", -1);
            int[] numbers = Arrays.stream(fields).filter(text -> text.matches("[0-9]+")).mapToInt(Integer::parseInt).toArray();
            switch (fields[0]) {
                case "batch" -> load.batch(fields[1], numbers[0], numbers[1], numbers[2]).print();
                case "drain" -> load.drain(fields[1], fields[2], numbers[0], fields[4].equals("pop")).print();
                case "through" -> load.through(fields[1], fields[2], numbers[0], numbers[1], numbers[2]).print();
                default -> throw new IllegalArgumentException(fields[0]);
            }
        }
        System.exit(0);
    }

    private static byte[] body(int number, long sentNs) {
        return ByteBuffer.allocate(BODY_BYTES).putInt(number).putLong(sentNs).array();
    }

    private Json batch(String topic, int count, int size, int threads) throws Exception {
        producer.send(new Message(topic, body(-1, 0)));
        AtomicInteger next = new AtomicInteger();
        AtomicInteger failed = new AtomicInteger();
        long beginNs = System.nanoTime();
        ExecutorService workers = Executors.newFixedThreadPool(threads);
        for (int i = 0; i < threads; i++) {
            workers.submit(() -> {
                for (int first = next.getAndAdd(size); first < count; first = next.getAndAdd(size)) {
                    List<Message> messages = new ArrayList<>(size);
                    for (int number = first; number < Math.min(count, first + size); number++) {
                        messages.add(new Message(topic, body(number, 0)));
                    }
                    try {
                        producer.send(messages);
                    } catch (Exception error) {
                        failed.addAndGet(messages.size());
                        Describe.failure(error).print();
                    }
                }
            });
        }
        workers.shutdown();
        workers.awaitTermination(1, TimeUnit.HOURS);
        return new Json().put("event", "sent").put("count", count).put("failed", failed.get())
            .put("elapsedMs", (System.nanoTime() - beginNs) / 1_000_000);
    }

    private DefaultMQPushConsumer consumer(String topic, String group, MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer made = new DefaultMQPushConsumer(group);
        Reach.by(made, namesrv);
        made.setInstanceName(group);
        made.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        made.subscribe(topic, "*");
        made.registerMessageListener(listener);
        return made;
    }

    private Json drain(String topic, String group, int count, boolean isPop) throws Exception {
        AtomicIntegerArray times = new AtomicIntegerArray(count);
        AtomicLong firstNs = new AtomicLong();
        AtomicLong lastNs = new AtomicLong();
        CountDownLatch missing = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = consumer(topic, group, (messages, context) -> {
            firstNs.compareAndSet(0, System.nanoTime());
            for (MessageExt message : messages) {
                int number = ByteBuffer.wrap(message.getBody()).getInt();
                if (number >= 0 && times.getAndIncrement(number) == 0) {
                    missing.countDown();
                }
            }
            lastNs.set(System.nanoTime());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        if (isPop) {
            consumer.setClientRebalance(false);
            pops(topic, group);
        }
        consumer.start();
        missing.await(WAIT_S, TimeUnit.SECONDS);
        long elapsedMs = Math.max(1, (lastNs.get() - firstNs.get()) / 1_000_000);
        consumer.shutdown();
        int twice = 0;
        for (int number = 0; number < count; number++) {
            twice += times.get(number) > 1 ? 1 : 0;
        }
        return new Json().put("event", "drained").put("count", count - missing.getCount()).put("lost", missing.getCount())
            .put("twice", twice).put("elapsedMs", elapsedMs);
    }

    private void pops(String topic, String group) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        Reach.by(admin, namesrv);
        admin.setInstanceName("admin-of-" + group);
        admin.start();
        admin.setMessageRequestMode(broker, topic, group, MessageRequestMode.POP, 0, 10_000);
        admin.shutdown();
    }

    private Json through(String topic, String group, int rate, int seconds, int warmS) throws Exception {
        producer.send(new Message(topic, body(-1, 0)));
        int count = rate * seconds;
        long[] tookUs = new long[count];
        CountDownLatch missing = new CountDownLatch(count);
        CountDownLatch first = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = consumer(topic, group, (messages, context) -> {
            long nowNs = System.nanoTime();
            for (MessageExt message : messages) {
                ByteBuffer read = ByteBuffer.wrap(message.getBody());
                int number = read.getInt();
                first.countDown();
                if (number >= 0 && tookUs[number] == 0) {
                    tookUs[number] = Math.max(1, (nowNs - read.getLong()) / 1_000);
                    missing.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        first.await(60, TimeUnit.SECONDS);
        AtomicInteger failed = new AtomicInteger();
        SendCallback noted = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
            }

            @Override
            public void onException(Throwable error) {
                failed.incrementAndGet();
                Describe.failure(error).print();
            }
        };
        long beginNs = System.nanoTime();
        for (int number = 0; number < count; number++) {
            long sendNs = beginNs + number * 1_000_000_000L / rate;
            while (System.nanoTime() < sendNs) {
                LockSupport.parkNanos(sendNs - System.nanoTime());
            }
            // from the moment at which it ought to leave
            producer.send(new Message(topic, body(number, sendNs)), noted);
        }
        missing.await(60, TimeUnit.SECONDS);
        consumer.shutdown();
        long[] known = Arrays.stream(tookUs, warmS * rate, count).filter(us -> us > 0).sorted().toArray();
        return new Json().put("event", "through").put("count", known.length).put("failed", failed.get())
            .put("lost", missing.getCount()).put("p50Us", at(known, 0.5)).put("p99Us", at(known, 0.99))
            .put("maxUs", at(known, 1));
    }

    private static long at(long[] sorted, double part) {
        return sorted.length == 0 ? -1 : sorted[(int) Math.min(sorted.length - 1, sorted.length * part)];
    }
}
