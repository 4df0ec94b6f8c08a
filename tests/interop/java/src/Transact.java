import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Transactions with TransactionMQProducer, one request a line of standard input, fields parted by tabs:
 * half, topic, key, body, tag, immunity in s, what the local transaction says, what each check says
 * (joined by commas; the last is said for ever). States: COMMIT, ROLLBACK, UNKNOW. Each check is an event of its own.
 */
public final class Transact implements TransactionListener {
    private final Map<String, LocalTransactionState> local = new ConcurrentHashMap<>();
    private final Map<String, Queue<LocalTransactionState>> checks = new ConcurrentHashMap<>();
    private TransactionMQProducer producer;

    public static void main(String[] args) throws Exception {
        new Transact().run(args[0], args[1]);
    }

    private void run(String namesrv, String group) throws Exception {
        producer = new TransactionMQProducer(group);
        Reach.by(producer, namesrv);
        producer.setInstanceName(group);
        producer.setTransactionListener(this);
        producer.start();
        new Json().put("event", "started").print();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            try {
                answer(line.split("\t", -1)).print();
            } catch (Exception error) {
                Describe.failure(error).print();
            }
        }
        producer.shutdown();
    }

    private Json answer(String[] fields) throws Exception {
        Message message = new Message(fields[1], fields[3].getBytes(StandardCharsets.UTF_8));
        String key = fields[2];
        message.setKeys(key);
        if (!fields[4].isEmpty()) {
            message.setTags(fields[4]);
        }
        if (!fields[5].isEmpty()) {
            message.putUserProperty(MessageConst.PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS, fields[5]);
        }
        local.put(key, state(fields[6]));
        Queue<LocalTransactionState> answers = new ArrayDeque<>();
        Arrays.stream(fields[7].split(",")).map(Transact::state).forEach(answers::add);
        checks.put(key, answers);
        TransactionSendResult result = producer.sendMessageInTransaction(message, null);
        return new Json().put("event", "sent").put("status", result.getSendStatus().name()).put("key", key)
            .put("state", result.getLocalTransactionState().name()).put("msgId", result.getMsgId())
            .put("transactionId", result.getTransactionId()).put("queueOffset", result.getQueueOffset())
            .put("queueId", result.getMessageQueue().getQueueId());
    }

    private static LocalTransactionState state(String word) {
        switch (word) {
            case "COMMIT":
                return LocalTransactionState.COMMIT_MESSAGE;
            case "ROLLBACK":
                return LocalTransactionState.ROLLBACK_MESSAGE;
            default:
                return LocalTransactionState.UNKNOW;
        }
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return local.get(message.getKeys());
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        Queue<LocalTransactionState> answers = checks.get(message.getKeys());
        LocalTransactionState said;
        synchronized (answers) {
            said = answers.size() > 1 ? answers.poll() : answers.peek();
        }
        new Json().put("event", "check").put("key", message.getKeys()).put("topic", message.getTopic())
            .put("queueId", message.getQueueId()).put("body", new String(message.getBody(), StandardCharsets.UTF_8))
            .put("times", message.getProperty(MessageConst.PROPERTY_TRANSACTION_CHECK_TIMES))
            .put("transactionId", message.getTransactionId()).put("said", said.name()).print();
        return said;
    }
}
