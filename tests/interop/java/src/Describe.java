import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;

/** What the programs print about a message that arrived and about a request that failed. */
final class Describe {
    private Describe() {
    }

    static Json message(MessageExt message) {
        return new Json().put("event", "message")
            .put("arrivedMs", System.currentTimeMillis())
            .put("topic", message.getTopic())
            .put("queueId", message.getQueueId())
            .put("queueOffset", message.getQueueOffset())
            .put("position", message.getCommitLogOffset())
            .put("msgId", message.getMsgId())
            .put("tags", message.getTags())
            .put("keys", message.getKeys())
            .put("bornMs", message.getBornTimestamp())
            .put("storeMs", message.getStoreTimestamp())
            .put("reconsumeTimes", message.getReconsumeTimes())
            .put("sysFlag", message.getSysFlag())
            .put("base64", Base64.getEncoder().encodeToString(message.getBody()))
            .put("body", new String(message.getBody(), StandardCharsets.UTF_8))
            .put("properties", message.getProperties());
    }

    static Json failure(Throwable error) {
        long code = 0;
        if (error instanceof MQBrokerException) {
            code = ((MQBrokerException) error).getResponseCode();
        } else if (error instanceof MQClientException) {
            code = ((MQClientException) error).getResponseCode();
        }
        return new Json().put("event", "failure").put("error", error.getClass().getSimpleName())
            .put("code", code).put("remark", String.valueOf(error.getMessage()));
    }
}
