import com.fasterxml.jackson.databind.JsonNode;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RBlockingDeque;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.ByteArrayCodec;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.StringCodec;
import org.redisson.client.handler.State;
import org.redisson.codec.JsonJacksonCodec;
import org.redisson.codec.SerializationCodec;
import org.redisson.codec.TypedJsonJacksonCodec;

/** What one command does with a queue of one name and codec: each is one call of the real client. */
final class Queues {
    private final RedissonClient client;
    private final Map<String, Codec> codecs;
    private final Map<String, RDelayedQueue<Object>> live = new ConcurrentHashMap<>();
    private final Map<String, RDelayedQueue<Object>> idle = new ConcurrentHashMap<>();

    Queues(RedissonClient client) {
        this.client = client;
        this.codecs = Map.of("string", StringCodec.INSTANCE, "bytes", ByteArrayCodec.INSTANCE,
            "json", new JsonJacksonCodec(), "typed_map", new TypedJsonJacksonCodec(Map.class),
            "typed_order", new TypedJsonJacksonCodec(Values.Order.class),
            "jdk", new SerializationCodec(), "default", client.getConfig().getCodec());
    }

    /** The list that due values go to. */
    RBlockingDeque<Object> target(JsonNode command) {
        return client.getBlockingDeque(command.get("queue").textValue(), codec(command));
    }

    /** With `live`, its transfer task runs in this process; otherwise the object is one that was destroyed. */
    RDelayedQueue<Object> delayed(JsonNode command) {
        String key = command.path("codec").asText("string") + " " + command.get("queue").textValue();
        if (command.path("live").asBoolean()) {
            return live.computeIfAbsent(key, unused -> client.getDelayedQueue(target(command)));
        }
        if (live.containsKey(key)) {
            return live.get(key);
        }
        return idle.computeIfAbsent(key, unused -> {
            RDelayedQueue<Object> queue = client.getDelayedQueue(target(command));
            queue.destroy();
            return queue;
        });
    }

    /** End the transfer task of a live queue. */
    boolean destroy(JsonNode command) {
        String key = command.path("codec").asText("string") + " " + command.get("queue").textValue();
        RDelayedQueue<Object> queue = live.remove(key);
        if (queue != null) {
            queue.destroy();
        }
        return queue != null;
    }

    Object run(JsonNode command) throws Exception {
        String name = command.get("op").textValue();
        return name.startsWith("target.") ? onTarget(name, command) : onDelayed(name, command);
    }

    private Object onTarget(String name, JsonNode command) throws Exception {
        RBlockingDeque<Object> target = target(command);
        switch (name) {
            case "target.take":
                return target.take();
            case "target.poll":
                return command.has("seconds")
                    ? target.poll(command.get("seconds").longValue(), TimeUnit.SECONDS) : target.poll();
            case "target.size":
                return target.size();
            case "target.readAll":
                return new ArrayList<>(client.getDeque(target.getName(), codec(command)).readAll());
            case "target.contains":
                return target.contains(Values.value(command.get("value")));
            default:
                throw new IllegalArgumentException("no operation is called " + name);
        }
    }

    private Object onDelayed(String name, JsonNode command) throws Exception {
        Object value = Values.value(command.get("value"));
        switch (name) {
            case "now":
                return System.currentTimeMillis();
            case "encode":
                return Values.hex(encoded(codec(command), value));
            case "encodeAll":
                return ((List<?>) value).stream().map(each -> Values.hex(quietly(command, each))).toList();
            case "decode":
                return decoded(codec(command), Values.bytes(command.get("hex").textValue()));
            case "destroy":
                return destroy(command);
            case "open":
                return delayed(command).getName();
            default:
                return onQueue(name, command, delayed(command), value);
        }
    }

    private Object onQueue(String name, JsonNode command, RDelayedQueue<Object> queue, Object value) {
        switch (name) {
            case "offer":
                queue.offer(value, command.get("delayMs").longValue(), TimeUnit.MILLISECONDS);
                return true;
            case "poll":
                return command.has("limit") ? queue.poll(command.get("limit").intValue()) : queue.poll();
            case "peek":
                return queue.peek();
            case "size":
                return queue.size();
            case "isEmpty":
                return queue.isEmpty();
            case "contains":
                return queue.contains(value);
            case "containsAll":
                return queue.containsAll((List<?>) value);
            case "remove":
                return queue.remove(value);
            case "removeAll":
                return queue.removeAll((List<?>) value);
            case "retainAll":
                return queue.retainAll((List<?>) value);
            case "readAll":
                return queue.readAll();
            case "iterate":
                List<Object> all = new ArrayList<>();
                queue.iterator().forEachRemaining(all::add);
                return all;
            case "iterator.remove":
                Iterator<Object> iterator = queue.iterator();
                iterator.next();
                iterator.remove();
                return true;
            case "pollLastAndOfferFirstTo":
                return queue.pollLastAndOfferFirstTo(command.get("to").textValue());
            case "clear":
                queue.clear();
                return true;
            case "delete":
                return queue.delete();
            default:
                throw new IllegalArgumentException("no operation is called " + name);
        }
    }

    Codec codec(JsonNode command) {
        return codecs.get(command.path("codec").asText("string"));
    }

    private byte[] quietly(JsonNode command, Object value) {
        try {
            return encoded(codec(command), value);
        } catch (IOException refused) {
            throw new IllegalArgumentException(refused);
        }
    }

    private static byte[] encoded(Codec codec, Object value) throws IOException {
        ByteBuf bytes = codec.getValueEncoder().encode(value);
        try {
            return ByteBufUtil.getBytes(bytes);
        } finally {
            bytes.release();
        }
    }

    private static Object decoded(Codec codec, byte[] bytes) throws IOException {
        return codec.getValueDecoder().decode(Unpooled.wrappedBuffer(bytes), new State());
    }
}
