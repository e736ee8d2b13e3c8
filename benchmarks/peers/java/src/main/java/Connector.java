import com.github.shyiko.mysql.binlog.BinaryLogFileReader;
import com.github.shyiko.mysql.binlog.event.DeleteRowsEventData;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.UpdateRowsEventData;
import com.github.shyiko.mysql.binlog.event.WriteRowsEventData;
import java.io.BufferedInputStream;
import java.io.FileInputStream;

/** mysql-binlog-connector-java over a buffered file. */
final class Connector {
    public static void main(String[] args) throws Exception {
        Rounds.run(Double.parseDouble(args[1]), () -> {
            var input = new BufferedInputStream(new FileInputStream(args[0]), 1 << 20);
            try (BinaryLogFileReader reader = new BinaryLogFileReader(input)) {
                for (Event event; (event = reader.readEvent()) != null;) {
                    EventData data = event.getData();
                    if (data instanceof WriteRowsEventData write) {
                        count(write.getRows().size(), 1);
                    } else if (data instanceof DeleteRowsEventData delete) {
                        count(delete.getRows().size(), 1);
                    } else if (data instanceof UpdateRowsEventData update) {
                        count(update.getRows().size(), 2);
                    }
                    Rounds.sink = data;
                }
            }
            return null;
        });
    }

    private static void count(int rows, int images) {
        Rounds.rows += rows;
        Rounds.images += (long) rows * images;
    }
}
