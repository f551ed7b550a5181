import java.io.File;
import java.nio.file.Files;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;

/**
 * A server of Kerberos for one machine, with its principals in memory. Run from this source file, with a working directory, a host, a port,
 * a realm, a file with a password, and then pairs of a principal and the keytab to write for it.
 */
public class Kdc {
    public static void main(String[] arguments) {
        try {
            SimpleKdcServer server = new SimpleKdcServer();
            server.setWorkDir(new File(arguments[0]));
            server.setKdcHost(arguments[1]);
            server.setAllowUdp(false);
            server.setKdcTcpPort(Integer.parseInt(arguments[2]));
            server.setKdcRealm(arguments[3]);
            server.init();
            // From a password, so that the keys are the same after a restart.
            String password = Files.readString(new File(arguments[4]).toPath());
            for (int number = 5; number < arguments.length; number += 2) {
                server.createPrincipal(arguments[number], password + arguments[number]);
                server.exportPrincipal(arguments[number], new File(arguments[number + 1]));
            }
            server.start();
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }
}
