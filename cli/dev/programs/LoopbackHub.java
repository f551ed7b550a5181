import java.io.File;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.hedwig.protocol.PubSubProtocol.OperationType;
import org.apache.hedwig.server.common.ServerConfiguration;
import org.apache.hedwig.server.handlers.Handler;
import org.apache.hedwig.server.handlers.SubscriptionChannelManager;
import org.apache.hedwig.server.netty.PubSubServer;
import org.apache.hedwig.server.netty.PubSubServerPipelineFactory;
import org.apache.hedwig.server.netty.UmbrellaHandler;
import org.apache.hedwig.server.ssl.SslServerContextFactory;
import org.jboss.netty.bootstrap.ServerBootstrap;
import org.jboss.netty.channel.ChannelFactory;
import org.jboss.netty.channel.group.ChannelGroup;

/**
 * The original hub, unchanged but for the address it listens on: PubSubServer itself can only listen on all addresses of the machine.
 * Run from this source file, with the path of the hub's configuration as the argument.
 */
public class LoopbackHub extends PubSubServer {
    private final ServerConfiguration configuration;

    LoopbackHub(ServerConfiguration configuration) throws Exception {
        super(configuration);
        this.configuration = configuration;
    }

    public static void main(String[] arguments) {
        try {
            ServerConfiguration configuration = new ServerConfiguration();
            configuration.loadConf(new File(arguments[0]).toURI().toURL());
            new LoopbackHub(configuration).start();
        } catch (Throwable failure) {
            // Threads of a half-started hub would keep the process alive.
            failure.printStackTrace();
            System.exit(RC_OTHER);
        }
    }

    @Override
    protected void initializeNetty(
            SslServerContextFactory tls, Map<OperationType, Handler> handlers, SubscriptionChannelManager subscriptionChannels) {
        ChannelGroup channels = (ChannelGroup) inherited("allChannels");
        UmbrellaHandler requests = new UmbrellaHandler(channels, handlers, subscriptionChannels, tls != null);
        ServerBootstrap listener = new ServerBootstrap((ChannelFactory) inherited("serverChannelFactory"));
        listener.setPipelineFactory(new PubSubServerPipelineFactory(requests, tls, configuration.getMaximumMessageSize()));
        listener.setOption("child.tcpNoDelay", true);
        listener.setOption("child.keepAlive", true);
        listener.setOption("reuseAddress", true);
        int port = tls != null ? configuration.getSSLServerPort() : configuration.getServerPort();
        channels.add(listener.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port)));
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
