import java.io.File;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.hedwig.protocol.PubSubProtocol.OperationType;
import org.apache.hedwig.server.common.ServerConfiguration;
import org.apache.hedwig.server.handlers.Handler;
import org.apache.hedwig.server.netty.PubSubServer;
import org.apache.hedwig.server.netty.PubSubServerPipelineFactory;
import org.apache.hedwig.server.netty.UmbrellaHandler;
import org.apache.hedwig.server.ssl.SslServerContextFactory;
import org.jboss.netty.bootstrap.ServerBootstrap;
import org.jboss.netty.channel.ChannelFactory;
import org.jboss.netty.channel.group.ChannelGroup;

/**
 * The hub of releases 4.0 and 4.1, unchanged but for the address it listens on. Run from this source file, with the path of the
 * hub's configuration as the argument.
 */
public class OlderLoopbackHub extends PubSubServer {
    OlderLoopbackHub(ServerConfiguration configuration) throws Exception {
        super(configuration);
    }

    public static void main(String[] arguments) {
        try {
            ServerConfiguration configuration = new ServerConfiguration();
            configuration.loadConf(new File(arguments[0]).toURI().toURL());
            OlderLoopbackHub hub = new OlderLoopbackHub(configuration);
            try {
                PubSubServer.class.getMethod("start").invoke(hub);
            } catch (NoSuchMethodException release40) {
                // It has been started by its constructor.
            }
        } catch (Throwable failure) {
            // Threads of a half-started hub would keep the process alive.
            failure.printStackTrace();
            System.exit(RC_OTHER);
        }
    }

    /** In release 4.0 the constructor of the class above calls this, before there are fields of this one. */
    @Override
    protected void initializeNetty(SslServerContextFactory tls, Map<OperationType, Handler> handlers) {
        ServerConfiguration configuration = (ServerConfiguration) inherited("conf");
        ChannelGroup channels = (ChannelGroup) inherited("allChannels");
        UmbrellaHandler requests = new UmbrellaHandler(channels, handlers, tls != null);
        ServerBootstrap listener = new ServerBootstrap((ChannelFactory) inherited("serverChannelFactory"));
        listener.setPipelineFactory(new PubSubServerPipelineFactory(requests, tls, configuration.getMaximumMessageSize()));
        listener.setOption("child.tcpNoDelay", true);
        listener.setOption("child.keepAlive", true);
        listener.setOption("reuseAddress", true);
        channels.add(listener.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), configuration.getServerPort())));
    }

    private Object inherited(String name) {
        try {
            Field field = PubSubServer.class.getDeclaredField(name);
            field.setAccessible(true);
            return field.get(this);
        } catch (ReflectiveOperationException failure) {
            throw new IllegalStateException("this release of the hub has no field " + name, failure);
        }
    }
}
