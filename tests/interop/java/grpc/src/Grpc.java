import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * A client of the 5.x API (gRPC). Arguments: endpoints, topics joined by commas. A request a line, fields parted by tabs:
 * send topic body tag key message-group delivery-ms | recall topic handle | transaction topic body commit|rollback|leave
 * receive group topic expression count invisible-ms wait-s | ack message-id | change message-id invisible-ms
 * push group topic. An expression that begins with "sql:" is one. What is left open is committed when it is checked.
 */
public final class Grpc {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final Map<String, SimpleConsumer> CONSUMERS = new ConcurrentHashMap<>();
    private static final Map<String, MessageView> HELD = new ConcurrentHashMap<>();
    private static ClientConfiguration configuration;
    private static Producer producer;
    private static SimpleConsumer last;

    public static void main(String[] args) throws Exception {
        configuration = ClientConfiguration.newBuilder().setEndpoints(args[0]).enableSsl(false)
            .setRequestTimeout(Duration.ofSeconds(10)).build();
        producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(args[1].split(","))
            .setTransactionChecker(message -> {
                System.out.println("{\"event\":\"check\",\"id\":" + quoted(message.getMessageId().toString()) + "}");
                return TransactionResolution.COMMIT;
            }).build();
        System.out.println("{\"event\":\"started\"}");
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            try {
                System.out.println(answer(line.split("\t", -1)));
            } catch (Exception error) {
                System.out.println("{\"event\":\"failure\",\"error\":" + quoted(error.getClass().getSimpleName())
                    + ",\"code\":0,\"remark\":" + quoted(String.valueOf(error.getMessage())) + "}");
            }
        }
        System.exit(0);
    }

    private static String answer(String[] fields) throws Exception {
        switch (fields[0]) {
            case "send":
                SendReceipt receipt = producer.send(message(fields).build());
                return "{\"event\":\"sent\",\"id\":" + quoted(receipt.getMessageId().toString())
                    + ",\"handle\":" + quoted(receipt.getRecallHandle()) + "}";
            case "recall":
                return "{\"event\":\"recalled\",\"id\":"
                    + quoted(producer.recallMessage(fields[1], fields[2]).getMessageId().toString()) + "}";
            case "transaction":
                Transaction transaction = producer.beginTransaction();
                producer.send(message(new String[] {"", fields[1], fields[2], "", "", "", ""}).build(), transaction);
                if (fields[3].equals("commit")) {
                    transaction.commit();
                } else if (fields[3].equals("rollback")) {
                    transaction.rollback();
                }
                return "{\"event\":\"ended\"}";
            case "receive":
                return receive(fields);
            case "ack":
                last.ack(HELD.get(fields[1]));
                return "{\"event\":\"acked\"}";
            case "change":
                last.changeInvisibleDuration(HELD.get(fields[1]), Duration.ofMillis(Long.parseLong(fields[2])));
                return "{\"event\":\"changed\"}";
            case "push":
                PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(fields[1])
                    .setSubscriptionExpressions(Collections.singletonMap(fields[2], FilterExpression.SUB_ALL))
                    .setMessageListener(message -> {
                        System.out.println(described("pushed", message));
                        return ConsumeResult.SUCCESS;
                    }).build();
                return "{\"event\":\"pushing\"}";
            default:
                throw new IllegalArgumentException(fields[0]);
        }
    }

    private static MessageBuilder message(String[] fields) {
        MessageBuilder builder = PROVIDER.newMessageBuilder().setTopic(fields[1])
            .setBody(fields[2].getBytes(StandardCharsets.UTF_8)).addProperty("length", "" + fields[2].length());
        if (!fields[3].isEmpty()) {
            builder.setTag(fields[3]);
        }
        if (!fields[4].isEmpty()) {
            builder.setKeys(fields[4]);
        }
        if (!fields[5].isEmpty()) {
            builder.setMessageGroup(fields[5]);
        }
        if (!fields[6].isEmpty()) {
            builder.setDeliveryTimestamp(Long.parseLong(fields[6]));
        }
        return builder;
    }

    private static String receive(String[] fields) throws Exception {
        String key = String.join(" ", Arrays.copyOfRange(fields, 1, 4)) + fields[6];
        SimpleConsumer consumer = CONSUMERS.get(key);
        if (consumer == null) {
            boolean isSql = fields[3].startsWith("sql:");
            FilterExpression expression = isSql
                ? new FilterExpression(fields[3].substring(4), FilterExpressionType.SQL92) : new FilterExpression(fields[3]);
            consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup(fields[1]).setAwaitDuration(Duration.ofSeconds(Long.parseLong(fields[6])))
                .setSubscriptionExpressions(Collections.singletonMap(fields[2], expression)).build();
            CONSUMERS.put(key, consumer);
        }
        last = consumer;
        Duration invisible = Duration.ofMillis(Long.parseLong(fields[5]));
        List<MessageView> messages = consumer.receive(Integer.parseInt(fields[4]), invisible);
        for (MessageView message : messages) {
            HELD.put(message.getMessageId().toString(), message);
            System.out.println(described("message", message));
        }
        return "{\"event\":\"received\",\"count\":" + messages.size() + "}";
    }

    private static String described(String event, MessageView message) {
        return "{\"event\":" + quoted(event) + ",\"id\":" + quoted(message.getMessageId().toString())
            + ",\"topic\":" + quoted(message.getTopic())
            + ",\"body\":" + quoted(StandardCharsets.UTF_8.decode(message.getBody()).toString())
            + ",\"tag\":" + quoted(message.getTag().orElse("")) + ",\"keys\":" + quoted(String.join(" ", message.getKeys()))
            + ",\"group\":" + quoted(message.getMessageGroup().orElse(""))
            + ",\"attempt\":" + message.getDeliveryAttempt() + ",\"arrivedMs\":" + System.currentTimeMillis() + "}";
    }

    private static String quoted(String text) {
        return text == null ? "null" : "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ") + "\"";
    }
}
