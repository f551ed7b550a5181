import com.google.protobuf.ByteString;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.hedwig.client.HedwigClient;
import org.apache.hedwig.client.api.MessageHandler;
import org.apache.hedwig.client.api.Subscriber;
import org.apache.hedwig.client.conf.ClientConfiguration;
import org.apache.hedwig.exceptions.PubSubException;
import org.apache.hedwig.filter.ClientMessageFilter;
import org.apache.hedwig.filter.MessageFilterBase;
import org.apache.hedwig.protocol.PubSubProtocol;
import org.apache.hedwig.protocol.PubSubProtocol.Message;
import org.apache.hedwig.protocol.PubSubProtocol.MessageHeader;
import org.apache.hedwig.protocol.PubSubProtocol.MessageSeqId;
import org.apache.hedwig.protocol.PubSubProtocol.PublishResponse;
import org.apache.hedwig.protocol.PubSubProtocol.SubscribeRequest.CreateOrAttach;
import org.apache.hedwig.protocol.PubSubProtocol.SubscriptionOptions;
import org.apache.hedwig.protocol.PubSubProtocol.SubscriptionPreferences;
import org.apache.hedwig.util.Callback;

/**
 * Lets another program use the original client: it reads commands from standard input and writes JSON lines to standard output.
 *
 * <p>A command is {@code NUMBER VERB NAME=VALUE ...} with values percent-encoded, one byte to a character; it is answered by one line with the
 * same {@code "command"} number and either {@code "result"} or {@code "error"}, in the order in which commands end. Every command has a
 * {@code deadline_ms}. Messages and subscription events come as lines with {@code "event"}. It ends when its standard input does.
 */
public class JavaClientDriver {
    private static final long CLOSE_MS = 5_000;

    private final Output output = new Output();
    private final Map<String, OpenClient> clients = new ConcurrentHashMap<>();
    private final ExecutorService commands = daemons();
    private final ExecutorService calls = daemons();

    public static void main(String[] arguments) throws IOException {
        new JavaClientDriver().run();
        // Threads of the client must not keep the process alive.
        Runtime.getRuntime().halt(0);
    }

    private void run() throws IOException {
        write(new Json().put("event", "ready"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.ISO_8859_1));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Command command = new Command(line);
            commands.execute(() -> answer(command));
        }
        List<Future<?>> closing = new ArrayList<>();
        for (OpenClient client : clients.values()) {
            closing.add(calls.submit(client.client::close));
        }
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(CLOSE_MS);
        for (Future<?> close : closing) {
            try {
                close.get(Math.max(0, end - System.nanoTime()), TimeUnit.NANOSECONDS);
            } catch (InterruptedException | ExecutionException | TimeoutException failure) {
                System.err.println("a client was not closed: " + failure);
            }
        }
    }

    private void answer(Command command) {
        Json answer = new Json().put("command", command.number);
        // The client's synchronous calls wait without a deadline of their own.
        Future<Json> call = calls.submit(() -> perform(command));
        try {
            answer.put("result", call.get(command.number("deadline_ms", 0), TimeUnit.MILLISECONDS));
        } catch (TimeoutException late) {
            call.cancel(true);
            answer.put("error", describe(late, "no answer within the deadline"));
        } catch (ExecutionException failed) {
            answer.put("error", describe(failed.getCause(), failed.getCause().getMessage()));
        } catch (InterruptedException ended) {
            answer.put("error", describe(ended, "interrupted"));
        }
        write(answer);
    }

    private Json perform(Command command) throws Exception {
        if (command.verb.equals("open")) {
            OpenClient opened = new OpenClient(command);
            clients.put(opened.name, opened);
            return new Json();
        }
        OpenClient client = clients.get(command.text("client"));
        if (client == null) {
            throw new IllegalArgumentException("no client " + command.text("client"));
        }
        switch (command.verb) {
            case "close":
                clients.remove(client.name);
                client.client.close();
                return new Json();
            case "publish":
                return client.publish(command);
            case "publish_many":
                return client.publishMany(command);
            case "subscribe":
                client.subscriber.subscribe(command.bytes("topic"), command.bytes("subscriber"), options(command));
                return new Json();
            case "start":
                return client.start(command);
            case "stop":
                client.subscriber.stopDelivery(command.bytes("topic"), command.bytes("subscriber"));
                return new Json();
            case "acknowledge":
                return client.acknowledge(command);
            case "consume":
                MessageSeqId upTo = MessageSeqId.newBuilder().setLocalComponent(command.number("local", 0)).build();
                client.subscriber.consume(command.bytes("topic"), command.bytes("subscriber"), upTo);
                return new Json();
            case "close_subscription":
                client.subscriber.closeSubscription(command.bytes("topic"), command.bytes("subscriber"));
                return new Json();
            case "unsubscribe":
                client.subscriber.unsubscribe(command.bytes("topic"), command.bytes("subscriber"));
                return new Json();
            default:
                throw new IllegalArgumentException("no verb " + command.verb);
        }
    }

    /** A client of the original library, with what its subscriptions have received and not yet acknowledged. */
    private final class OpenClient {
        final String name;
        final HedwigClient client;
        final Subscriber subscriber;
        private final Map<String, ConcurrentLinkedQueue<Runnable>> held = new ConcurrentHashMap<>();

        OpenClient(Command command) {
            name = command.text("client");
            ClientConfiguration configuration = new ClientConfiguration();
            command.startingWith("property.").forEach((key, value) -> configuration.getConf().setProperty(key, value.toStringUtf8()));
            client = new HedwigClient(configuration);
            subscriber = client.getSubscriber();
            subscriber.addSubscriptionListener((topic, subscriberId, event) -> {
                Json line = new Json().put("event", "subscription").put("kind", event.name());
                write(line.put("client", name).put("topic", topic).put("subscriber", subscriberId));
            });
        }

        Json publish(Command command) throws Exception {
            Message.Builder message = Message.newBuilder().setBody(command.bytes("body"));
            Map<String, ByteString> properties = command.startingWith("header.");
            if (!properties.isEmpty() || command.has("message_type")) {
                MessageHeader.Builder header = MessageHeader.newBuilder().setProperties(map(properties));
                if (command.has("message_type")) {
                    header.setMessageType(command.text("message_type"));
                }
                message.setHeader(header);
            }
            PublishResponse response = client.getPublisher().publish(command.bytes("topic"), message.build());
            return new Json().put("local", localId(response));
        }

        /** Publish bodies of a prefix and a number, with a bound on how many are not answered yet. */
        Json publishMany(Command command) throws InterruptedException {
            int count = (int) command.number("count", 0);
            Semaphore free = new Semaphore((int) command.number("in_flight", 1));
            CountDownLatch answers = new CountDownLatch(count);
            Object[] results = new Object[count];
            for (int number = 0; number < count; number++) {
                int index = number;
                free.acquire();
                ByteString body = ByteString.copyFromUtf8(command.text("prefix") + number);
                Callback<PublishResponse> callback = new Callback<PublishResponse>() {
                    @Override
                    public void operationFinished(Object context, PublishResponse response) {
                        answered(localId(response));
                    }

                    @Override
                    public void operationFailed(Object context, PubSubException failure) {
                        answered(describe(failure, failure.getMessage()));
                    }

                    private void answered(Object result) {
                        results[index] = result;
                        free.release();
                        answers.countDown();
                    }
                };
                client.getPublisher().asyncPublishWithResponse(
                        command.bytes("topic"), Message.newBuilder().setBody(body).build(), callback, null);
            }
            answers.await();
            return new Json().put("answers", Arrays.asList(results));
        }

        /** Start delivery under a number; messages are acknowledged one by one, or held until the command to acknowledge them. */
        Json start(Command command) throws Exception {
            ConcurrentLinkedQueue<Runnable> waiting = held.computeIfAbsent(subscription(command), key -> new ConcurrentLinkedQueue<>());
            boolean hold = command.flag("hold", false);
            long delivery = command.number("delivery", 0);
            MessageHandler handler = (topic, subscriberId, message, callback, context) -> {
                Runnable acknowledgement = () -> callback.operationFinished(context, null);
                // A test that reads of a message may close its channel at once, which must not overtake its consume. Thanks to
                // that consume, another thread may receive a later message on a new channel. Its line must follow this one.
                Output.Line line = output.reserve(received(message).put("delivery", delivery));
                try {
                    if (hold) {
                        waiting.add(acknowledgement);
                    } else {
                        acknowledgement.run();
                    }
                } finally {
                    output.release(line);
                }
            };
            ByteString topic = command.bytes("topic");
            ByteString subscriberId = command.bytes("subscriber");
            if (command.has("matching")) {
                subscriber.startDeliveryWithFilter(topic, subscriberId, handler, new MatchingFilter(command.text("matching")));
            } else {
                subscriber.startDelivery(topic, subscriberId, handler);
            }
            return new Json();
        }

        Json acknowledge(Command command) {
            ConcurrentLinkedQueue<Runnable> waiting = held.getOrDefault(subscription(command), new ConcurrentLinkedQueue<>());
            long count = 0;
            for (Runnable next = waiting.poll(); next != null; next = waiting.poll()) {
                next.run();
                count++;
            }
            return new Json().put("count", count);
        }

        private String subscription(Command command) {
            return command.text("topic") + '\0' + command.text("subscriber");
        }

        private Json received(Message message) {
            Json line = new Json().put("event", "message");
            line.put("local", message.getMsgId().getLocalComponent());
            line.put("body", message.getBody());
            line.put("source_region", message.getSrcRegion());
            if (message.getHeader().hasMessageType()) {
                line.put("message_type", message.getHeader().getMessageType());
            }
            Json properties = new Json();
            for (PubSubProtocol.Map.Entry entry : message.getHeader().getProperties().getEntriesList()) {
                properties.put(entry.getKey(), entry.getValue());
            }
            return line.put("properties", properties);
        }
    }

    /** A filter of the client's side: passes messages with the same value for a property as the subscription has for that option. */
    private static final class MatchingFilter implements ClientMessageFilter {
        private final String name;
        private ByteString wanted;

        MatchingFilter(String name) {
            this.name = name;
        }

        @Override
        public MessageFilterBase setSubscriptionPreferences(
                ByteString topic, ByteString subscriberId, SubscriptionPreferences preferences) {
            wanted = valueOf(preferences.getOptions());
            return this;
        }

        @Override
        public boolean testMessage(Message message) {
            ByteString value = valueOf(message.getHeader().getProperties());
            return value != null && value.equals(wanted);
        }

        private ByteString valueOf(PubSubProtocol.Map entries) {
            for (PubSubProtocol.Map.Entry entry : entries.getEntriesList()) {
                if (entry.getKey().equals(name)) {
                    return entry.getValue();
                }
            }
            return null;
        }
    }

    private static SubscriptionOptions options(Command command) {
        SubscriptionOptions.Builder options = SubscriptionOptions.newBuilder();
        options.setCreateOrAttach(CreateOrAttach.valueOf(command.text("mode")));
        options.setForceAttach(command.flag("force", false));
        options.setEnableResubscribe(command.flag("resubscribe", true));
        if (command.has("bound")) {
            options.setMessageBound((int) command.number("bound", 0));
        }
        if (command.has("window")) {
            options.setMessageWindowSize((int) command.number("window", 0));
        }
        if (command.has("filter")) {
            options.setMessageFilter(command.text("filter"));
        }
        Map<String, ByteString> own = command.startingWith("option.");
        if (!own.isEmpty()) {
            options.setOptions(map(own));
        }
        return options.build();
    }

    private static PubSubProtocol.Map map(Map<String, ByteString> entries) {
        PubSubProtocol.Map.Builder map = PubSubProtocol.Map.newBuilder();
        entries.forEach((key, value) -> map.addEntries(PubSubProtocol.Map.Entry.newBuilder().setKey(key).setValue(value)));
        return map.build();
    }

    private static Object localId(PublishResponse response) {
        return response == null ? null : (Object) response.getPublishedMsgId().getLocalComponent();
    }

    private static Json describe(Throwable failure, String text) {
        List<Object> causes = new ArrayList<>();
        for (Throwable cause = failure.getCause(); cause != null; cause = cause.getCause()) {
            causes.add(cause.getClass().getSimpleName());
        }
        return new Json().put("class", failure.getClass().getSimpleName()).put("text", text).put("causes", causes);
    }

    private void write(Json line) {
        output.release(output.reserve(line));
    }

    private static ExecutorService daemons() {
        return Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
    }

    /** Standard output, whose lines come in the order in which they were reserved, each when it is released. */
    private static final class Output {
        private final PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true);
        private final ArrayDeque<Line> lines = new ArrayDeque<>();

        synchronized Line reserve(Json content) {
            Line line = new Line(content);
            lines.add(line);
            return line;
        }

        synchronized void release(Line line) {
            line.released = true;
            while (!lines.isEmpty() && lines.peek().released) {
                out.println(lines.poll().content);
            }
        }

        static final class Line {
            private final Json content;
            private boolean released;

            Line(Json content) {
                this.content = content;
            }
        }
    }

    /** One line of standard input. */
    private static final class Command {
        final long number;
        final String verb;
        private final Map<String, String> values = new HashMap<>();

        Command(String line) {
            String[] words = line.split(" ");
            number = Long.parseLong(words[0]);
            verb = words[1];
            for (int index = 2; index < words.length; index++) {
                int equals = words[index].indexOf('=');
                values.put(words[index].substring(0, equals), URLDecoder.decode(words[index].substring(equals + 1), StandardCharsets.ISO_8859_1));
            }
        }

        boolean has(String name) {
            return values.containsKey(name);
        }

        ByteString bytes(String name) {
            String value = values.get(name);
            if (value == null) {
                throw new IllegalArgumentException(verb + " needs " + name);
            }
            return ByteString.copyFrom(value.getBytes(StandardCharsets.ISO_8859_1));
        }

        String text(String name) {
            return bytes(name).toStringUtf8();
        }

        long number(String name, long otherwise) {
            return has(name) ? Long.parseLong(text(name)) : otherwise;
        }

        boolean flag(String name, boolean otherwise) {
            return has(name) ? Boolean.parseBoolean(text(name)) : otherwise;
        }

        Map<String, ByteString> startingWith(String prefix) {
            Map<String, ByteString> chosen = new HashMap<>();
            for (String name : values.keySet()) {
                if (name.startsWith(prefix)) {
                    chosen.put(name.substring(prefix.length()), bytes(name));
                }
            }
            return chosen;
        }
    }

    /** An object on one line; bytes are written in base 64. */
    private static final class Json {
        private final StringBuilder members = new StringBuilder();

        Json put(String name, Object value) {
            members.append(members.length() == 0 ? "" : ",");
            append(name);
            members.append(':');
            append(value);
            return this;
        }

        private void append(Object value) {
            if (value instanceof ByteString) {
                append(Base64.getEncoder().encodeToString(((ByteString) value).toByteArray()));
            } else if (value instanceof String) {
                members.append('"');
                ((String) value).chars().forEach(this::escape);
                members.append('"');
            } else if (value instanceof List) {
                members.append('[');
                String separator = "";
                for (Object element : (List<?>) value) {
                    members.append(separator);
                    append(element);
                    separator = ",";
                }
                members.append(']');
            } else {
                members.append(value);
            }
        }

        private void escape(int character) {
            if (character < ' ' || character > '~' || character == '"' || character == '\\') {
                members.append(String.format("\\u%04x", character));
            } else {
                members.append((char) character);
            }
        }

        @Override
        public String toString() {
            return "{" + members + "}";
        }
    }
}
