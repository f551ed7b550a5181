import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * The Java client of BookKeeper, driven by lines of words: one command a line, one line of answer each, which begins with
 * "ok" or with "error" and the class of what was thrown. The argument is the URI of the metadata.
 */
public class JavaLedgers {
    private static final Map<Long, LedgerHandle> OPEN = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        ClientConfiguration configuration = new ClientConfiguration();
        configuration.setMetadataServiceUri(arguments[0]);
        configuration.setExplictLacInterval(50);
        try (BookKeeper client = new BookKeeper(configuration)) {
            System.out.println("ok ready");
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                try {
                    System.out.println("ok " + answer(client, line.split(" ")));
                } catch (Exception failure) {
                    System.out.println("error " + failure.getClass().getSimpleName());
                }
                System.out.flush();
            }
        }
        // Threads of the client that outlive it must not keep the process.
        System.exit(0);
    }

    private static String answer(BookKeeper client, String[] words) throws Exception {
        switch (words[0]) {
            case "create": {  // digest, password in hex, ensemble, write quorum, ack quorum, key, value
                Map<String, byte[]> custom = Map.of(words[6], words[7].getBytes(StandardCharsets.UTF_8));
                LedgerHandle made = client.createLedger(number(words[3]), number(words[4]), number(words[5]),
                        DigestType.valueOf(words[1]), bytes(words[2]), custom);
                OPEN.put(made.getId(), made);
                return Long.toString(made.getId());
            }
            case "append": {  // ledger, first, count
                LedgerHandle ledger = OPEN.get(Long.parseLong(words[1]));
                int first = number(words[2]);
                for (int entry = first; entry < first + number(words[3]); entry++) {
                    ledger.addEntry(payload(entry));
                }
                return Long.toString(ledger.getLastAddConfirmed());
            }
            case "close":
                OPEN.remove(Long.parseLong(words[1])).close();
                return "";
            case "read": {  // ledger, digest, password; whoever has it open is shut out
                try (LedgerHandle ledger = client.openLedger(Long.parseLong(words[1]), DigestType.valueOf(words[2]),
                        bytes(words[3]))) {
                    return contents(ledger, ledger.getLastAddConfirmed());
                }
            }
            case "follow": {  // ledger, digest, password; whoever has it open goes on
                try (LedgerHandle ledger = client.openLedgerNoRecovery(Long.parseLong(words[1]),
                        DigestType.valueOf(words[2]), bytes(words[3]))) {
                    return contents(ledger, Math.max(ledger.readExplicitLastConfirmed(), ledger.readLastConfirmed()));
                }
            }
            case "about": {  // ledger, digest, password
                try (LedgerHandle ledger = client.openLedgerNoRecovery(Long.parseLong(words[1]),
                        DigestType.valueOf(words[2]), bytes(words[3]))) {
                    StringBuilder out = new StringBuilder();
                    for (Map.Entry<String, byte[]> each : new TreeMap<>(ledger.getCustomMetadata()).entrySet()) {
                        out.append(each.getKey()).append('=');
                        out.append(new String(each.getValue(), StandardCharsets.UTF_8)).append(' ');
                    }
                    return out.toString().trim();
                }
            }
            case "delete":
                client.deleteLedger(Long.parseLong(words[1]));
                return "";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** The id of the last entry, and the SHA-1 of all: of each the length in four bytes, and the payload. */
    private static String contents(LedgerHandle ledger, long last) throws Exception {
        MessageDigest hash = MessageDigest.getInstance("SHA-1");
        if (last >= 0) {
            Enumeration<LedgerEntry> entries = ledger.readEntries(0, last);
            while (entries.hasMoreElements()) {
                byte[] payload = entries.nextElement().getEntry();
                hash.update(ByteBuffer.allocate(4).putInt(payload.length).array());
                hash.update(payload);
            }
        }
        return last + " " + HexFormat.of().formatHex(hash.digest());
    }

    private static byte[] payload(int entry) {
        byte[] payload = new byte[entry % 90];
        Arrays.fill(payload, (byte) entry);
        return payload;
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }

    private static byte[] bytes(String hex) {
        return HexFormat.of().parseHex(hex.equals("-") ? "" : hex);
    }
}
