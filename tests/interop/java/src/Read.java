import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Pulls every message of each topic that standard input names, from the first offset to the last, then says "end". */
public final class Read {
    @SuppressWarnings("deprecation")
    public static void main(String[] args) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(args[1]);
        Reach.by(consumer, args[0]);
        consumer.setInstanceName(args[1]);
        consumer.start();
        new Json().put("event", "started").print();
        BufferedReader topics = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String topic = topics.readLine(); topic != null; topic = topics.readLine()) {
            try {
                long count = 0;
                for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
                    count += read(consumer, queue);
                }
                new Json().put("event", "end").put("topic", topic).put("count", count).print();
            } catch (Exception error) {
                Describe.failure(error).print();
            }
        }
        consumer.shutdown();
    }

    @SuppressWarnings("deprecation")
    private static long read(DefaultMQPullConsumer consumer, MessageQueue queue) throws Exception {
        long count = 0;
        long offset = consumer.minOffset(queue);
        long end = consumer.maxOffset(queue);
        while (offset < end) {
            PullResult pulled = consumer.pull(queue, "*", offset, 32);
            if (pulled.getPullStatus() == PullStatus.FOUND) {
                for (MessageExt message : pulled.getMsgFoundList()) {
                    Describe.message(message).print();
                    count++;
                }
            } else if (pulled.getNextBeginOffset() <= offset) {
                throw new IllegalStateException(queue + " stopped at " + offset + ": " + pulled.getPullStatus());
            }
            offset = pulled.getNextBeginOffset();
        }
        return count;
    }
}
