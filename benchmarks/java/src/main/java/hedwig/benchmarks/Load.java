package hedwig.benchmarks;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.apache.hbase.thirdparty.com.google.gson.JsonArray;
import org.apache.hbase.thirdparty.com.google.gson.JsonObject;

/** One workload as a closed loop: each operation that finishes begins the next. */
final class Load {
    private static final int FILL_IN_FLIGHT = 64;
    private static final int OPERATIONS_PER_S_MAX = 200_000;
    private static final double SECOND_NS = 1e9;
    private static final int NAME_DIGITS = 8;

    private final Records records;
    private final String operation;
    private final String prefix;
    private final int inFlightMax;
    private final double seconds;
    private final double warmupS;
    private final double drainS;
    private final int[] order;
    private final byte[][] rows;
    private final AtomicReferenceArray<byte[]> versions;
    private final AtomicInteger numbers = new AtomicInteger();
    private final CountDownLatch ended;
    private Recording recording;
    private long endNs;

    Load(JsonObject asked, Records records) {
        this.records = records;
        JsonObject workload = asked.getAsJsonObject("workload");
        operation = workload.getAsJsonObject("mix").keySet().iterator().next();
        prefix = workload.get("prefix").getAsString();
        inFlightMax = workload.get("in_flight").getAsInt();
        seconds = workload.get("seconds").getAsDouble();
        warmupS = workload.get("warmup_s").getAsDouble();
        drainS = asked.get("drain_s").getAsDouble();
        JsonArray topics = asked.getAsJsonArray("order");
        order = new int[topics.size()];
        rows = new byte[workload.get("topics").getAsInt()][];
        versions = new AtomicReferenceArray<>(rows.length);
        for (int number = 0; number < order.length; number++) {
            order[number] = topics.get(number).getAsInt();
        }
        for (int topic = 0; topic < rows.length; topic++) {
            rows[topic] = records.row(name(prefix, topic));
        }
        ended = new CountDownLatch(inFlightMax);
    }

    /** Makes the records that the operation needs. */
    void prepare() throws InterruptedException {
        if (operation.equals("create")) {
            return;
        }
        Semaphore free = new Semaphore(FILL_IN_FLIGHT);
        AtomicInteger failed = new AtomicInteger();
        for (int topic = 0; topic < rows.length; topic++) {
            int made = topic;
            free.acquire();
            records.create(rows[topic]).whenComplete((version, error) -> {
                if (error != null || version == null) {
                    failed.incrementAndGet();
                } else {
                    versions.set(made, version);
                }
                free.release();
            });
        }
        free.acquire(FILL_IN_FLIGHT);
        if (failed.get() > 0) {
            throw new IllegalStateException("making " + rows.length + " records failed " + failed.get() + " times");
        }
    }

    /** Carries the workload out from a time on, and returns its summary. */
    JsonObject run(long startNs) throws InterruptedException {
        endNs = startNs + Math.round(seconds * SECOND_NS);
        recording = new Recording(startNs, startNs + Math.round(warmupS * SECOND_NS), endNs,
                (int) (seconds * OPERATIONS_PER_S_MAX) + inFlightMax);
        for (long aheadNs = startNs - System.nanoTime(); aheadNs > 0; aheadNs = startNs - System.nanoTime()) {
            TimeUnit.NANOSECONDS.sleep(aheadNs);
        }
        for (int caller = 0; caller < inFlightMax; caller++) {
            begin(caller, 0);
        }
        ended.await(Math.round((seconds + drainS) * SECOND_NS), TimeUnit.NANOSECONDS);
        return recording.summary(Math.min(numbers.get(), recording.capacity()));
    }

    /** Begins the next operation of a caller that has finished some before. */
    private void begin(int caller, int before) {
        long now = System.nanoTime();
        int number = now < endNs ? numbers.getAndIncrement() : Integer.MAX_VALUE;
        if (number >= recording.capacity()) {
            ended.countDown();
            return;
        }
        recording.begun(number, now);
        carryOut(number, topic(caller, before)).whenComplete((done, error) -> {
            recording.finished(number, System.nanoTime(), error == null ? null : name(error));
            begin(caller, before + 1);
        });
    }

    /** Returns the record of a caller's next operation: its own records in turn. With too few, callers share them. */
    private int topic(int caller, int before) {
        if (caller >= order.length) {
            return order[caller % order.length];
        }
        int own = (order.length - caller + inFlightMax - 1) / inFlightMax;
        return order[caller + before % own * inFlightMax];
    }

    private CompletableFuture<?> carryOut(int number, int topic) {
        switch (operation) {
            case "read":
                return records.read(rows[topic]).thenAccept(Load::check);
            case "create":
                return records.create(records.row(name(prefix + "-new", number))).thenAccept(Load::check);
            case "update":
                return update(topic, versions.get(topic), false);
            case "partial-update":
                return update(topic, versions.get(topic), true);
            case "contended-update":
                return records.read(rows[topic]).thenCompose(current -> update(topic, current, false));
            default:
                throw new IllegalArgumentException("there is no operation " + operation);
        }
    }

    /** Writes until it is done, after a refusal with the version that a read then finds. */
    private CompletableFuture<Void> update(int topic, byte[] version, boolean isPart) {
        check(version);
        return records.update(rows[topic], version, isPart).thenCompose(written -> {
            if (written != null) {
                versions.set(topic, written);
                return CompletableFuture.completedFuture(null);
            }
            recording.refused(System.nanoTime());
            return records.read(rows[topic]).thenCompose(current -> update(topic, current, isPart));
        });
    }

    private static void check(byte[] version) {
        if (version == null) {
            throw new IllegalStateException("a record is missing, or was there already");
        }
    }

    private static String name(Throwable error) {
        Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
        return cause.getClass().getSimpleName();
    }

    private static String name(String prefix, int topic) {
        String digits = Integer.toString(topic);
        return prefix + "-" + "0".repeat(Math.max(0, NAME_DIGITS - digits.length())) + digits;
    }
}
