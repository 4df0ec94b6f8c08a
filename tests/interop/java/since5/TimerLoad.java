import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * Loads a broker with timers and notes when each arrives in a push consumer's handler: name server, topic, group. One
 * request a line of standard input, fields parted by tabs; one JSON line an answer:
 * steady rate seconds span-ms: timers at a steady rate, each due at random within the span; how late they came.
 * herd count lead-ms threads: timers all due in the same ms, lead-ms after the first is sent; when the last one came.
 * accept count delay-s threads: how fast timers (delay-s 0: plain messages) are taken, on a topic that nobody consumes.
 * fill count from-s until-s threads: timers due evenly between two moments from now; they are not waited for.
 */
public final class TimerLoad {
    private static final int BODY_BYTES = 128;
    private static volatile Run run = new Run(0, 0);
    private final DefaultMQProducer producer;
    private final String topic;

    /** What is awaited: message n of run `number` is due at `dues[n]`. */
    private static final class Run {
        final int number;
        final AtomicLongArray dues;
        final AtomicLongArray arrivals;
        final AtomicIntegerArray times;
        final AtomicInteger distinct = new AtomicInteger();
        final AtomicInteger failed = new AtomicInteger();

        Run(int number, int count) {
            this.number = number;
            dues = new AtomicLongArray(count);
            arrivals = new AtomicLongArray(count);
            times = new AtomicIntegerArray(count);
        }
    }

    private TimerLoad(String namesrv, String topic, String group) throws Exception {
        this.topic = topic;
        producer = new DefaultMQProducer(group + "-sender");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(group + "-sender");
        producer.setSendMsgTimeout(60_000);
        producer.setMqClientApiTimeout(30_000);
        producer.start();
        producer.send(new Message(topic, body(0, 0)));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group);
        consumer.setMqClientApiTimeout(30_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        CountDownLatch first = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long nowMs = System.currentTimeMillis();
            messages.forEach(message -> arrived(message.getBody(), nowMs));
            first.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        first.await(60, TimeUnit.SECONDS);
    }

    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            // the threads of a client go on without the one that asked for something
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        TimerLoad load = new TimerLoad(args[0], args[1], args[2]);
        new Json().put("event", "started").print();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] fields = line.split("\t", -1);
            int[] numbers = Arrays.stream(fields).skip(1).mapToInt(Integer::parseInt).toArray();
            switch (fields[0]) {
                case "steady" -> load.steady(numbers[0], numbers[1], numbers[2]).print();
                case "herd" -> load.herd(numbers[0], numbers[1], numbers[2]).print();
                case "accept" -> load.accept(numbers[0], numbers[1], numbers[1], numbers[2]).print();
                case "fill" -> load.accept(numbers[0], numbers[1], numbers[2], numbers[3]).print();
                default -> throw new IllegalArgumentException(fields[0]);
            }
        }
        System.exit(0);
    }

    private static byte[] body(int run, int number) {
        return ByteBuffer.allocate(BODY_BYTES).putInt(run).putInt(number).array();
    }

    private static void arrived(byte[] body, long nowMs) {
        ByteBuffer read = ByteBuffer.wrap(body);
        Run now = run;
        if (now.number == 0 || read.getInt() != now.number) {
            return;
        }
        int number = read.getInt();
        if (now.times.getAndIncrement(number) == 0) {
            now.arrivals.set(number, nowMs);
            now.distinct.incrementAndGet();
        }
    }

    private Json steady(int rate, int seconds, int spanMs) throws Exception {
        Run mine = begin(rate * seconds);
        Random random = new Random(4);
        long beginNs = System.nanoTime();
        for (int number = 0; number < mine.dues.length(); number++) {
            long sendNs = beginNs + number * 1_000_000_000L / rate;
            while (System.nanoTime() < sendNs) {
                LockSupport.parkNanos(sendNs - System.nanoTime());
            }
            mine.dues.set(number, System.currentTimeMillis() + 1_000 + random.nextInt(spanMs - 1_000));
            send(mine, number);
        }
        await(mine, spanMs + 30_000);
        return told(mine).put("rate", rate);
    }

    private void send(Run mine, int number) throws Exception {
        Message message = new Message(topic, body(mine.number, number));
        message.setDeliverTimeMs(mine.dues.get(number));
        producer.send(message, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
            }

            @Override
            public void onException(Throwable error) {
                mine.failed.incrementAndGet();
                Describe.failure(error).print();
            }
        });
    }

    private Json herd(int count, int leadMs, int threads) throws Exception {
        Run mine = begin(count);
        long dueMs = (System.currentTimeMillis() + leadMs) / 1000 * 1000;
        long beginMs = System.currentTimeMillis();
        each(count, threads, number -> {
            mine.dues.set(number, dueMs);
            Message message = new Message(topic, body(mine.number, number));
            message.setDeliverTimeMs(dueMs);
            producer.send(message);
        });
        long acceptedMs = System.currentTimeMillis();
        await(mine, Math.max(0, dueMs - acceptedMs) + 120_000);
        return told(mine).put("dueMs", dueMs).put("acceptMs", acceptedMs - beginMs).put("earlyEnoughMs", dueMs - acceptedMs);
    }

    private Json accept(int count, int fromS, int untilS, int threads) throws Exception {
        AtomicInteger failed = new AtomicInteger();
        AtomicLong beginMs = new AtomicLong(System.currentTimeMillis());
        each(count, threads, number -> {
            Message message = new Message(topic + "Unread", body(0, number));
            if (untilS > 0) {
                long span = (untilS - fromS) * 1_000L;
                long mixed = (number * 0x9E3779B97F4A7C15L >>> 11) % Math.max(1, span);
                message.setDelayTimeMs(fromS * 1_000L + mixed);
            }
            try {
                producer.send(message);
            } catch (Exception error) {
                failed.incrementAndGet();
                Describe.failure(error).print();
            }
        });
        return new Json().put("event", "accepted").put("count", count).put("failed", failed.get())
            .put("elapsedMs", System.currentTimeMillis() - beginMs.get());
    }

    private interface Work {
        void of(int number) throws Exception;
    }

    private static void each(int count, int threads, Work work) throws Exception {
        AtomicInteger next = new AtomicInteger();
        ExecutorService workers = Executors.newFixedThreadPool(threads);
        for (int i = 0; i < threads; i++) {
            workers.submit(() -> {
                try {
                    for (int number = next.getAndIncrement(); number < count; number = next.getAndIncrement()) {
                        work.of(number);
                    }
                } catch (Exception error) {
                    Describe.failure(error).print();
                }
            });
        }
        workers.shutdown();
        workers.awaitTermination(2, TimeUnit.HOURS);
    }

    private static Run begin(int count) {
        run = new Run(run.number + 1, count);
        return run;
    }

    private static void await(Run mine, long timeoutMs) throws Exception {
        long endMs = System.currentTimeMillis() + timeoutMs;
        CountDownLatch pause = new CountDownLatch(1);
        while (mine.distinct.get() < mine.dues.length() && System.currentTimeMillis() < endMs) {
            pause.await(50, TimeUnit.MILLISECONDS);
        }
        pause.await(500, TimeUnit.MILLISECONDS);
    }

    private static Json told(Run mine) {
        int count = mine.dues.length();
        long[] late = new long[count];
        int known = 0;
        int early = 0;
        int twice = 0;
        long last = 0;
        for (int number = 0; number < count; number++) {
            if (mine.times.get(number) > 1) {
                twice++;
            }
            if (mine.times.get(number) > 0) {
                late[known] = mine.arrivals.get(number) - mine.dues.get(number);
                early += late[known] < 0 ? 1 : 0;
                known++;
                last = Math.max(last, mine.arrivals.get(number));
            }
        }
        late = Arrays.copyOf(late, known);
        Arrays.sort(late);
        return new Json().put("event", "lateness").put("count", count).put("failed", mine.failed.get())
            .put("lost", count - known - mine.failed.get()).put("twice", twice).put("early", early)
            .put("p50", at(late, 0.5)).put("p99", at(late, 0.99)).put("p999", at(late, 0.999)).put("max", at(late, 1))
            .put("lastMs", last);
    }

    private static long at(long[] sorted, double part) {
        return sorted.length == 0 ? -1 : sorted[(int) Math.min(sorted.length - 1, sorted.length * part)];
    }
}
