import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * RocketMQ's own mqadmin, many commands in one JVM. One a line: the seconds that it may take and its arguments, parted
 * by tabs. Answers one JSON line each: what it said to standard output and error, and whether it came to its end. Wrong
 * options make mqadmin end the whole JVM: then that is said last.
 */
public final class Tools {
    private static final PrintStream STDOUT = System.out;
    private static final PrintStream STDERR = System.err;
    private static final ByteArrayOutputStream SAID = new ByteArrayOutputStream();
    private static final ByteArrayOutputStream COMPLAINED = new ByteArrayOutputStream();
    private static volatile boolean busy;

    public static void main(String[] args) throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            if (busy) {
                answer(false);
            }
        }));
        new Json().put("event", "started").print();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] fields = line.split("\t", -1);
            String[] command = Arrays.copyOfRange(fields, 1, fields.length);
            SAID.reset();
            COMPLAINED.reset();
            System.setOut(new PrintStream(SAID, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(COMPLAINED, true, StandardCharsets.UTF_8));
            busy = true;
            Thread thread = new Thread(() -> MQAdminStartup.main0(command, null));
            thread.setDaemon(true);
            thread.start();
            thread.join(1_000L * Long.parseLong(fields[0]));
            busy = false;
            answer(!thread.isAlive());
        }
        System.exit(0);
    }

    private static void answer(boolean ended) {
        System.setOut(STDOUT);
        System.setErr(STDERR);
        new Json().put("event", "done").put("ended", ended ? 1 : 0).put("out", SAID.toString(StandardCharsets.UTF_8))
            .put("err", COMPLAINED.toString(StandardCharsets.UTF_8)).print();
    }
}
