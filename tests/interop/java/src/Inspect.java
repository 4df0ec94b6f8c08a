import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Asks with DefaultMQAdminExt what standard input wants, one request a line, fields parted by tabs:
 * topic-stats topic | consume-stats group | consume-queue broker-address topic queue index count | view topic id |
 * by-key topic key | route topic | runtime broker-address. JSON lines, the last of each answer says "end".
 */
public final class Inspect {
    public static void main(String[] args) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(10_000L);
        admin.setNamesrvAddr(args[0]);
        admin.setInstanceName(args[1]);
        admin.setAdminExtGroup(args[1]);
        admin.start();
        new Json().put("event", "started").print();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            try {
                answer(admin, line.split("\t", -1));
                new Json().put("event", "end").print();
            } catch (Exception error) {
                Describe.failure(error).print();
            }
        }
        admin.shutdown();
    }

    private static void answer(DefaultMQAdminExt admin, String[] fields) throws Exception {
        switch (fields[0]) {
            case "topic-stats" -> admin.examineTopicStats(fields[1]).getOffsetTable().forEach((queue, offsets) ->
                new Json().put("event", "queue").put("queueId", queue.getQueueId()).put("min", offsets.getMinOffset())
                    .put("max", offsets.getMaxOffset()).put("lastMs", offsets.getLastUpdateTimestamp()).print());
            case "consume-stats" -> admin.examineConsumeStats(fields[1]).getOffsetTable().forEach((queue, offsets) ->
                new Json().put("event", "queue").put("topic", queue.getTopic()).put("queueId", queue.getQueueId())
                    .put("broker", offsets.getBrokerOffset()).put("consumer", offsets.getConsumerOffset()).print());
            case "consume-queue" -> consumeQueue(admin, fields);
            case "view" -> Describe.message(admin.viewMessage(fields[1], fields[2])).print();
            case "by-key" -> {
                for (MessageExt found : admin.queryMessage(fields[1], fields[2], 64, 0, Long.MAX_VALUE).getMessageList()) {
                    Describe.message(found).print();
                }
            }
            case "route" -> admin.examineTopicRouteInfo(fields[1]).getQueueDatas().forEach(queue ->
                new Json().put("event", "route").put("brokerName", queue.getBrokerName())
                    .put("readQueues", queue.getReadQueueNums()).put("writeQueues", queue.getWriteQueueNums())
                    .put("permission", queue.getPerm()).print());
            case "runtime" -> new Json().put("event", "runtime")
                .put("table", admin.fetchBrokerRuntimeStats(fields[1]).getTable()).print();
            default -> throw new IllegalArgumentException(fields[0]);
        }
    }

    private static void consumeQueue(DefaultMQAdminExt admin, String[] fields) throws Exception {
        var body = admin.queryConsumeQueue(fields[1], fields[2], Integer.parseInt(fields[3]),
            Long.parseLong(fields[4]), Integer.parseInt(fields[5]), null);
        new Json().put("event", "bounds").put("min", body.getMinQueueIndex()).put("max", body.getMaxQueueIndex()).print();
        body.getQueueData().forEach(entry -> new Json().put("event", "entry").put("position", entry.getPhysicOffset())
            .put("size", entry.getPhysicSize()).put("tagsCode", entry.getTagsCode()).print());
    }
}
