import java.nio.channels.Selector;
import java.util.concurrent.Semaphore;

/** A selector, which is an epoll instance, as Netty's transport without native code has it. */
class Loop {
    static double now() { return System.nanoTime() / 1e3; }

    public static void main(String[] none) throws Exception {
        Selector selector = Selector.open();
        selector.selectNow();
        System.out.println("ready");
        while (System.in.read() != '\n') { }
        double begun = now();
        for (int i = 0; i < 2000; i++) selector.selectNow();
        double passes = now() - begun;
        int early = 0;
        for (int ms : new int[] {1, 3, 7, 20}) {
            begun = now();
            selector.select(ms);
            if (now() - begun < (ms - 1.1) * 1e3) early++;
        }
        Semaphore asked = new Semaphore(0);
        int[] left = {200};
        Thread other = new Thread(() -> {
            for (int i = 0; i < 200; i++) { selector.wakeup(); asked.acquireUninterruptibly(); }
        });
        begun = now();
        other.start();
        while (left[0]-- > 0) { selector.select(); asked.release(); }
        double wakes = now() - begun;
        other.join();
        System.out.printf("done %d %.0f %.0f%n", early, passes, wakes);
        while (System.in.read() >= 0) { }
    }
}
