package hedwig.benchmarks;

import java.util.Scanner;

/**
 * Prints the summary of a window of given operations, as the recording of the Java client makes it.
 *
 * <p>Input: when the window begins and ends, in ns after the start; then when each operation began and finished, "-" if
 * it never did, and its error or "-". The start is an hour ago, so all that has a time is over.
 */
final class SummaryOfGiven {
    private static final int CAPACITY = 100_000;

    public static void main(String[] arguments) {
        long startNs = System.nanoTime() - 3_600_000_000_000L;
        Scanner given = new Scanner(System.in);
        Recording recording =
                new Recording(startNs, startNs + given.nextLong(), startNs + given.nextLong(), CAPACITY);
        int operations = 0;
        for (; given.hasNext(); operations++) {
            recording.begun(operations, startNs + given.nextLong());
            String finished = given.next();
            String error = given.next();
            if (!finished.equals("-")) {
                long at = startNs + Long.parseLong(finished);
                recording.finished(operations, at, error.equals("-") ? null : error);
            }
        }
        System.out.println(recording.summary(operations));
    }
}
