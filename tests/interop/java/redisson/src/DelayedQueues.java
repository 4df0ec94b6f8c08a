import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * The real RDelayedQueue behind a line protocol: address of the server. Each line on standard input is one command,
 * {"id", "op", "queue", "codec", ...}; each is run in a thread of its own, so a waiting take() stops no other. Its
 * answer is one line with the same id and the "value", or the "error" that the client threw.
 */
public final class DelayedQueues {
    private static final ObjectMapper MAPPER = new ObjectMapper(
        new JsonFactory().configure(JsonParser.Feature.ALLOW_NON_NUMERIC_NUMBERS, true));

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress(args[0]).setConnectionMinimumIdleSize(2)
            .setSubscriptionConnectionMinimumIdleSize(1);
        config.setThreads(4).setNettyThreads(4);
        RedissonClient client = Redisson.create(config);
        Queues queues = new Queues(client);
        Traffic traffic = new Traffic(queues);
        ExecutorService threads = Executors.newCachedThreadPool();
        print(MAPPER.createObjectNode().put("event", "started").put("nowMs", System.currentTimeMillis()));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                JsonNode command = MAPPER.readTree(line);
                threads.execute(() -> answer(command, queues, traffic));
            }
            System.exit(0);
        } catch (Exception error) {
            error.printStackTrace();
            // The other threads would keep the process, and whoever waits for an answer, for ever.
            System.exit(1);
        }
    }

    private static void answer(JsonNode command, Queues queues, Traffic traffic) {
        ObjectNode answer = MAPPER.createObjectNode().put("event", "answer");
        answer.set("id", command.get("id"));
        try {
            boolean many = command.get("op").textValue().startsWith("traffic.");
            answer.set("value", Values.node(many ? traffic.run(command) : queues.run(command)));
        } catch (Throwable thrown) {
            answer.put("error", thrown.toString());
        }
        print(answer);
    }

    static void print(JsonNode event) {
        // Only ASCII, so that a lone surrogate survives the way to the reader.
        String text = event.toString();
        StringBuilder line = new StringBuilder(text.length() + 1);
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            line.append(c < 0x7f ? String.valueOf(c) : String.format("\\u%04x", (int) c));
        }
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }
}
