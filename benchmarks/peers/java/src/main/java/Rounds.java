import java.util.concurrent.Callable;

/** Rounds over one log for some seconds; a line for each: rows, row images, seconds. */
final class Rounds {
    static long rows, images;
    static Object sink; // holds each value, so that none is optimized away

    static void run(double limit, Callable<Void> decode) throws Exception {
        long begin = System.nanoTime();
        do {
            rows = images = 0;
            long start = System.nanoTime();
            decode.call();
            System.out.println(rows + " " + images + " " + (System.nanoTime() - start) / 1e9);
        } while ((System.nanoTime() - begin) / 1e9 <= limit);
    }
}
