import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.auth.config.AuthConfig;
import org.apache.rocketmq.broker.out.BrokerOuterAPI;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.store.timer.TimerCheckpoint;

/**
 * Asks a broker for its timer checkpoint and metrics as RocketMQ's slaves and tools do, one request a line of standard
 * input, fields parted by tabs: checkpoint address | metrics address. JSON lines, the last of each answer says "end".
 * This class of RocketMQ asks at the VIP port, 2 below the one it is given: so it is given one 2 above the broker's.
 */
public final class TimerState {
    public static void main(String[] args) throws Exception {
        NettyClientConfig patient = new NettyClientConfig();
        patient.setConnectTimeoutMillis(30_000);
        BrokerOuterAPI api = new BrokerOuterAPI(patient, new AuthConfig());
        api.start();
        new Json().put("event", "started").print();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            try {
                answer(api, line.split("\t", -1));
                new Json().put("event", "end").print();
            } catch (Exception error) {
                Describe.failure(error).print();
            }
        }
        api.shutdown();
    }

    private static void answer(BrokerOuterAPI api, String[] fields) throws Exception {
        int colon = fields[1].lastIndexOf(':');
        String address = fields[1].substring(0, colon + 1) + (Integer.parseInt(fields[1].substring(colon + 1)) + 2);
        if (fields[0].equals("checkpoint")) {
            TimerCheckpoint checkpoint = api.getTimerCheckPoint(address);
            new Json().put("event", "checkpoint").put("readMs", checkpoint.getLastReadTimeMs())
                .put("flushed", checkpoint.getLastTimerLogFlushPos()).put("queueOffset", checkpoint.getLastTimerQueueOffset())
                .put("masterQueueOffset", checkpoint.getMasterTimerQueueOffset()).print();
        } else {
            api.getTimerMetrics(address).getTimingCount().forEach((topic, metric) -> new Json().put("event", "metric")
                .put("topic", topic).put("count", metric.getCount().get()).put("changedMs", metric.getTimeStamp()).print());
        }
    }
}
