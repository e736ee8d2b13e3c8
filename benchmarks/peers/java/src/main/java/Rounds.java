import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.Callable;

/** Rounds over one log for some seconds; a line for each: rows, row images, CPU seconds. */
final class Rounds {
    private static final int WARM = 3; // rounds at least, since the first are compiled while they run
    static long rows, images;
    static Object sink; // holds each value, so that none is optimized away

    static void run(double limit, Callable<Void> decode) throws Exception {
        var system = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
        long begin = System.nanoTime();
        for (int round = 0; round < WARM || (System.nanoTime() - begin) / 1e9 <= limit; round++) {
            rows = images = 0;
            long start = system.getProcessCpuTime();
            decode.call();
            System.out.println(rows + " " + images + " " + (system.getProcessCpuTime() - start) / 1e9);
        }
    }
}
