package hedwig.benchmarks;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Base64;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import org.HdrHistogram.Histogram;
import org.apache.hbase.thirdparty.com.google.gson.JsonObject;

/** When each operation began and finished, and the summary of it, in the form of benchmarks/load/recording.py. */
final class Recording {
    private static final long US_MAX = 3_600_000_000L;
    private static final int DIGITS = 3;
    private static final int SERIES_DIGITS = 2;
    private static final long SECOND_NS = 1_000_000_000L;

    private final long startNs;
    private final long beginNs;
    private final long endNs;
    private final long[] begunNs;
    private final long[] finishedNs;
    private final LongAdder refusals = new LongAdder();
    private final Map<Long, LongAdder> refusalsBySecond = new ConcurrentHashMap<>();
    private final Map<Integer, String> errors = new ConcurrentHashMap<>();

    Recording(long startNs, long beginNs, long endNs, int capacity) {
        this.startNs = startNs;
        this.beginNs = beginNs;
        this.endNs = endNs;
        begunNs = new long[capacity];
        finishedNs = new long[capacity];
    }

    int capacity() {
        return begunNs.length;
    }

    void begun(int number, long atNs) {
        begunNs[number] = atNs;
    }

    void refused(long atNs) {
        if (beginNs <= atNs && atNs <= endNs) {
            refusals.increment();
        }
        refusalsBySecond.computeIfAbsent((atNs - startNs) / SECOND_NS, ignored -> new LongAdder()).increment();
    }

    void finished(int number, long atNs, String error) {
        if (error != null) {
            errors.put(number, error);
        }
        finishedNs[number] = atNs;
    }

    /**
     * Returns the numbers of the window: times of what began in it, counts of what finished in it. What was under way
     * all through it is among the times, too, and what failed once it had begun among the failures.
     */
    JsonObject summary(int operations) {
        Histogram times = new Histogram(1, US_MAX, DIGITS);
        Map<Long, Second> series = new TreeMap<>();
        Map<String, Integer> failures = new TreeMap<>();
        long count = 0;
        int offered = 0;
        int throughout = 0;
        long now = System.nanoTime();
        for (int number = 0; number < operations; number++) {
            long begun = begunNs[number];
            boolean isUnfinished = finishedNs[number] == 0;
            long finished = isUnfinished ? now : finishedNs[number];
            String error = isUnfinished ? "unfinished" : errors.get(number);
            long us = Math.min((finished - begun) / 1000, US_MAX);
            Second second = series.computeIfAbsent((finished - startNs) / SECOND_NS, ignored -> new Second());
            boolean isInside = beginNs <= begun && begun <= endNs;
            boolean isThroughout = begun < beginNs && finished > endNs;
            throughout += isThroughout ? 1 : 0;
            offered += begun >= beginNs ? 1 : 0;
            count += error == null && beginNs < finished && finished <= endNs ? 1 : 0;
            if (error == null) {
                second.finished++;
                second.times.recordValue(us);
                if (isInside || isThroughout) {
                    times.recordValue(us);
                }
            } else {
                second.failed++;
                if (finished >= beginNs) {
                    failures.merge(error, 1, Integer::sum);
                }
            }
        }
        refusalsBySecond.forEach(
                (number, refused) ->
                        series.computeIfAbsent(number, ignored -> new Second()).refused = refused.sum());
        JsonObject summary = new JsonObject();
        summary.addProperty("begin_ns", beginNs);
        summary.addProperty("end_ns", endNs);
        summary.addProperty("count", count);
        summary.addProperty("throughout", throughout);
        summary.addProperty("refusals", refusals.sum());
        summary.addProperty("deliveries", 0);
        summary.addProperty("unexpected_deliveries", 0);
        summary.addProperty("offered", offered);
        summary.addProperty("missed", 0);
        JsonObject byReason = new JsonObject();
        failures.forEach(byReason::addProperty);
        summary.add("errors", byReason);
        summary.addProperty("service", encoded(times));
        summary.addProperty("response", encoded(times));
        summary.addProperty("delivery", encoded(new Histogram(1, US_MAX, DIGITS)));
        JsonObject bySecond = new JsonObject();
        series.forEach((number, second) -> bySecond.add(Long.toString(number), second.toJson()));
        summary.add("series", bySecond);
        return summary;
    }

    private static String encoded(Histogram histogram) {
        ByteBuffer buffer = ByteBuffer.allocate(histogram.getNeededByteBufferCapacity());
        int length = histogram.encodeIntoCompressedByteBuffer(buffer);
        return Base64.getEncoder().encodeToString(Arrays.copyOf(buffer.array(), length));
    }

    private static final class Second {
        private final Histogram times = new Histogram(1, US_MAX, SERIES_DIGITS);
        private int finished;
        private int failed;
        private long refused;

        private JsonObject toJson() {
            JsonObject made = new JsonObject();
            made.addProperty("finished", finished);
            made.addProperty("failed", failed);
            made.addProperty("refused", refused);
            made.addProperty("deliveries", 0);
            made.addProperty("response", encoded(times));
            return made;
        }
    }
}
