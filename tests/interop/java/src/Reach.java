import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** Points a client at a name server, and gives it patience: that a machine is busy is nobody's failure. */
final class Reach {
    private static final int PATIENCE_MS = 30_000;

    private Reach() {
    }

    static void by(ClientConfig client, String namesrv) {
        client.setNamesrvAddr(namesrv);
        client.setMqClientApiTimeout(PATIENCE_MS);
        if (client instanceof DefaultMQProducer) {
            ((DefaultMQProducer) client).setSendMsgTimeout(PATIENCE_MS);
        }
    }
}
