import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.EventLoop;
import io.netty.channel.epoll.EpollEventLoopGroup;
import io.netty.channel.epoll.EpollSocketChannel;
import java.util.concurrent.Callable;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** The event loop of Netty's native transport: epoll, a timerfd and an eventfd. */
class NettyLoop {
    static int passes = 2000;

    public static void main(String[] none) throws Exception {
        EpollEventLoopGroup group = new EpollEventLoopGroup(1);
        EventLoop loop = group.next();
        EpollSocketChannel peer = new EpollSocketChannel(40);
        peer.pipeline().addLast(new ChannelInboundHandlerAdapter() {
            @Override public void channelRead(ChannelHandlerContext context, Object message) {
                int count = ((ByteBuf) message).readableBytes();
                ((ByteBuf) message).release();
                context.writeAndFlush(context.alloc().buffer().writeBytes("x".repeat(count).getBytes()));
            }
        });
        loop.register(peer).sync();
        System.out.println("ready");
        while (System.in.read() != '\n') { }
        Semaphore passed = new Semaphore(0);
        Runnable pass = new Runnable() {
            public void run() { if (--passes > 0) loop.execute(this); else passed.release(); }
        };
        long begun = System.nanoTime();
        loop.execute(pass);
        passed.acquire();
        long passesNs = System.nanoTime() - begun;
        int early = 0;
        for (int ms : new int[] {1, 3, 7, 20}) {
            begun = System.nanoTime();
            loop.schedule(() -> { }, ms, TimeUnit.MILLISECONDS).sync();
            if (System.nanoTime() - begun < (ms - 1) * 1_000_000L) early++;
        }
        begun = System.nanoTime();
        Callable<Integer> nothing = () -> 0;
        for (int i = 0; i < 200; i++) loop.submit(nothing).sync();
        long wakesNs = System.nanoTime() - begun;
        System.out.printf("done %d %d %d%n", early, passesNs / 1000, wakesNs / 1000);
        while (System.in.read() >= 0) { }
        System.exit(0);
    }
}
