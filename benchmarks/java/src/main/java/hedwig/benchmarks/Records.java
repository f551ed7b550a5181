package hedwig.benchmarks;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.HexFormat;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.hadoop.hbase.client.AsyncTable;
import org.apache.hadoop.hbase.client.CheckAndMutate;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hbase.thirdparty.com.google.gson.JsonObject;

/**
 * Subscription records as our drivers write them: the same rows, columns, values and conditions.
 *
 * <p>The compared column holds 25 bytes: L, a number, the token of the write and that of the write before.
 */
final class Records {
    private static final byte[] STATE = bytes("s");
    private static final byte[] PREFERENCES = bytes("p");
    private static final byte[] VERSION = bytes("v");
    private static final byte[] DATA = bytes("d");
    private static final byte[] TERMINATOR = {0, 1};
    private static final int STAMP_BYTES = 25;
    private static final int TOKEN_AT = 9;
    private static final int TOKEN_BYTES = 8;
    private static final int HASH_CHARACTERS = 4;

    private final AsyncTable<?> table;
    private final byte[] preferences;
    private final byte[] state;
    private final byte[] subscriber;

    Records(AsyncTable<?> table, JsonObject plan) {
        this.table = table;
        preferences = Base64.getDecoder().decode(plan.get("preferences").getAsString());
        state = Base64.getDecoder().decode(plan.get("state").getAsString());
        subscriber = bytes(plan.get("subscriber").getAsString());
    }

    /** Returns the row of the subscription to a topic, whose name must be ASCII. */
    byte[] row(String topic) {
        byte[] name = bytes(topic);
        try {
            String hash = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(name));
            return ByteBuffer.allocate(HASH_CHARACTERS + name.length + TERMINATOR.length + subscriber.length)
                    .put(bytes(hash.substring(0, HASH_CHARACTERS)))
                    .put(name)
                    .put(TERMINATOR)
                    .put(subscriber)
                    .array();
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** Reads a record; its version, or null if there is none. */
    CompletableFuture<byte[]> read(byte[] row) {
        Get get = new Get(row).addColumn(STATE, VERSION).addColumn(PREFERENCES, DATA).addColumn(STATE, DATA);
        return table.get(get).thenApply(Records::version);
    }

    /** Creates a record; its version, or null if one exists. */
    CompletableFuture<byte[]> create(byte[] row) {
        byte[] stamp = stamp(System.currentTimeMillis() * 1000, new byte[TOKEN_BYTES]);
        CheckAndMutate change =
                CheckAndMutate.newBuilder(row).ifNotExists(STATE, VERSION).build(put(row, stamp, false));
        return table.checkAndMutate(change).thenApply(answer -> answer.isSuccess() ? stamp : null);
    }

    /** Writes a record, or its state alone, if it is at a version; the new version, or null if it was not. */
    CompletableFuture<byte[]> update(byte[] row, byte[] version, boolean isPart) {
        byte[] token = new byte[TOKEN_BYTES];
        System.arraycopy(version, TOKEN_AT, token, 0, TOKEN_BYTES);
        byte[] stamp = stamp(ByteBuffer.wrap(version).getLong(1) + 1, token);
        CheckAndMutate change =
                CheckAndMutate.newBuilder(row).ifEquals(STATE, VERSION, version).build(put(row, stamp, isPart));
        return table.checkAndMutate(change).thenApply(answer -> answer.isSuccess() ? stamp : null);
    }

    private Put put(byte[] row, byte[] stamp, boolean isPart) {
        Put put = new Put(row).addColumn(STATE, VERSION, stamp).addColumn(STATE, DATA, state);
        if (!isPart) {
            put.addColumn(PREFERENCES, DATA, preferences);
        }
        return put.setDurability(Durability.SYNC_WAL);
    }

    private static byte[] stamp(long number, byte[] before) {
        return ByteBuffer.allocate(STAMP_BYTES)
                .put((byte) 'L')
                .putLong(number)
                .putLong(ThreadLocalRandom.current().nextLong())
                .put(before)
                .array();
    }

    private static byte[] version(Result result) {
        return result.getValue(STATE, VERSION);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }
}
