package hedwig.benchmarks;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hbase.thirdparty.com.google.gson.JsonElement;
import org.apache.hbase.thirdparty.com.google.gson.JsonObject;
import org.apache.hbase.thirdparty.com.google.gson.JsonParser;

/**
 * A load generator over HBase's own asynchronous client, as it is by default.
 *
 * <p>It speaks lines of JSON with the process that started it, like the generators in Python: a plan with the address of
 * the table, then any number of workloads. For each it makes the rows, says that it is ready, reads when to begin (in
 * nanoseconds of the system's monotonic clock, which System.nanoTime reads), and says what came out.
 */
public final class CasGenerator {
    private static final long CONNECT_S = 60;

    private CasGenerator() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // What libraries print must not come between the lines.
        try {
            serve(in, out);
        } catch (Exception failure) {
            JsonObject said = new JsonObject();
            said.addProperty("error", failure.toString().lines().findFirst().orElse(""));
            out.println(said);
            System.exit(1);
        }
        System.exit(0); // Threads of the client would keep the process alive.
    }

    private static void serve(BufferedReader in, PrintStream out) throws Exception {
        JsonObject plan = read(in);
        Configuration configuration = HBaseConfiguration.create();
        for (String name : plan.getAsJsonObject("configuration").keySet()) {
            configuration.set(name, plan.getAsJsonObject("configuration").get(name).getAsString());
        }
        try (AsyncConnection connection =
                ConnectionFactory.createAsyncConnection(configuration).get(CONNECT_S, TimeUnit.SECONDS)) {
            // Without an executor of its own the table calls back in the threads that read replies: the cheapest way.
            Records records = new Records(connection.getTable(TableName.valueOf(plan.get("table").getAsString())), plan);
            say(out, "ready", JsonParser.parseString("true"));
            for (JsonObject asked = read(in); asked.has("workload"); asked = read(in)) {
                Load load = new Load(asked, records);
                load.prepare();
                say(out, "ready", JsonParser.parseString("true"));
                say(out, "summary", load.run(read(in).get("start_ns").getAsLong()));
            }
        }
        say(out, "summary", JsonParser.parseString("null"));
    }

    private static JsonObject read(BufferedReader in) throws Exception {
        String line = in.readLine();
        if (line == null) {
            throw new IllegalStateException("the process that started this one has gone");
        }
        return JsonParser.parseString(line).getAsJsonObject();
    }

    private static void say(PrintStream out, String what, JsonElement value) {
        JsonObject said = new JsonObject();
        said.add(what, value);
        out.println(said);
    }
}
