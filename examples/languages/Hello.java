import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * A message over a reliable connection in Java: JNI calls message.c, and the memory is a direct buffer.
 *
 * <p>Without an argument it listens on its node's address; with one it connects there and sends.
 */
public final class Hello {
    private static final int ROOM = 64;

    static {
        System.loadLibrary("hello_jni");
    }

    private static native long open(String address, ByteBuffer buffer, boolean listens);

    private static native boolean send(long end, ByteBuffer buffer);

    private static native boolean receive(long end);

    private static native void close(long end);

    private static long opened(String address, ByteBuffer buffer, boolean listens) {
        long end = open(address, buffer, listens);
        if (end == 0) {
            throw new IllegalStateException("no connection at " + address);
        }
        return end;
    }

    public static void main(String[] arguments) {
        ByteBuffer buffer = ByteBuffer.allocateDirect(ROOM); // memory that the collector does not move
        boolean listens = arguments.length == 0;
        long end = opened(listens ? System.getenv("SOFTIB_ADDRESS") : arguments[0], buffer, listens);
        if (!listens) {
            String text = "hello from Java on " + System.getenv().getOrDefault("SOFTIB_PLACE", "another host");
            buffer.put(text.getBytes(StandardCharsets.UTF_8));
        }
        if (!(listens ? receive(end) : send(end, buffer))) {
            throw new IllegalStateException("the message was not transferred");
        }
        if (listens) {
            System.out.println(StandardCharsets.UTF_8.decode(buffer).toString().replace("\0", ""));
        }
        close(end);
    }
}
