import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RBlockingDeque;
import org.redisson.api.RDelayedQueue;

/** Many calls from one command: a producer that says which offers were answered, and consumers that note arrivals. */
final class Traffic {
    private final Queues queues;
    private final Map<String, ConcurrentLinkedQueue<List<Object>>> taken = new ConcurrentHashMap<>();

    Traffic(Queues queues) {
        this.queues = queues;
    }

    Object run(JsonNode command) throws Exception {
        switch (command.get("op").textValue()) {
            case "traffic.offer":
                return offer(command);
            case "traffic.take":
                return take(command);
            case "traffic.taken":
                return new ArrayList<>(arrivals(command));
            case "traffic.count":
                return arrivals(command).size();
            default:
                throw new IllegalArgumentException("no operation is called " + command.get("op"));
        }
    }

    /**
     * Offers `prefix`0 to `prefix`(count - 1) with delays drawn from `minMs` to `maxMs`; at a steady `rate` a second, or
     * as fast as answers come. With `say`, each answered offer is an event "offered". Returns for each value when it is
     * due at the earliest, by this machine's clock before the call.
     */
    private Object offer(JsonNode command) {
        RDelayedQueue<Object> queue = queues.delayed(command);
        String prefix = command.get("prefix").textValue();
        int count = command.get("count").intValue();
        long rate = command.path("rate").asLong(0);
        long minMs = command.get("minMs").longValue();
        long maxMs = command.get("maxMs").longValue();
        long beginNs = System.nanoTime();
        List<Object> due = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            if (rate > 0) {
                LockSupport.parkNanos(beginNs + i * 1_000_000_000L / rate - System.nanoTime());
            }
            long delayMs = minMs + (maxMs > minMs ? ThreadLocalRandom.current().nextLong(maxMs - minMs) : 0);
            due.add(System.currentTimeMillis() + delayMs);
            queue.offer(prefix + i, delayMs, TimeUnit.MILLISECONDS);
            if (command.path("say").asBoolean()) {
                DelayedQueues.print(event("offered").put("value", prefix + i));
            }
        }
        return due;
    }

    /** Takes until the end of the process; with `say`, each arrival is an event "taken". */
    private Object take(JsonNode command) {
        ConcurrentLinkedQueue<List<Object>> into = arrivals(command);
        RBlockingDeque<Object> target = queues.target(command);
        while (true) {
            try {
                Object value = target.take();
                long nowMs = System.currentTimeMillis();
                into.add(List.of(value, nowMs));
                if (command.path("say").asBoolean()) {
                    DelayedQueues.print(event("taken").put("value", String.valueOf(value)).put("nowMs", nowMs));
                }
            } catch (Exception error) {
                DelayedQueues.print(event("interrupted").put("error", error.toString()));
            }
        }
    }

    private ConcurrentLinkedQueue<List<Object>> arrivals(JsonNode command) {
        return taken.computeIfAbsent(command.get("queue").textValue(), unused -> new ConcurrentLinkedQueue<>());
    }

    private static ObjectNode event(String name) {
        return JsonNodeFactory.instance.objectNode().put("event", name);
    }
}
