import com.taobao.tddl.dbsync.binlog.FileLogFetcher;
import com.taobao.tddl.dbsync.binlog.LogContext;
import com.taobao.tddl.dbsync.binlog.LogDecoder;
import com.taobao.tddl.dbsync.binlog.LogEvent;
import com.taobao.tddl.dbsync.binlog.LogPosition;
import com.taobao.tddl.dbsync.binlog.event.FormatDescriptionLogEvent;
import com.taobao.tddl.dbsync.binlog.event.RowsLogBuffer;
import com.taobao.tddl.dbsync.binlog.event.RowsLogEvent;
import com.taobao.tddl.dbsync.binlog.event.TableMapLogEvent.ColumnInfo;
import com.taobao.tddl.dbsync.binlog.event.UpdateRowsLogEvent;
import java.nio.charset.StandardCharsets;
import java.util.BitSet;

/** canal's dbsync over a file. */
final class Canal {
    public static void main(String[] args) throws Exception {
        Rounds.run(Double.parseDouble(args[1]), () -> {
            LogDecoder decoder = new LogDecoder(LogEvent.UNKNOWN_EVENT, LogEvent.ENUM_END_EVENT);
            LogContext context = new LogContext(FormatDescriptionLogEvent.FORMAT_DESCRIPTION_EVENT_5_x);
            context.setLogPosition(new LogPosition("log", 4));
            try (FileLogFetcher fetcher = new FileLogFetcher(1 << 20)) {
                fetcher.open(args[0]);
                while (fetcher.fetch()) { // one event each: decode() fails on half an event
                    LogEvent event = decoder.decode(fetcher, context);
                    if (event instanceof RowsLogEvent rows) {
                        decode(rows);
                    }
                }
            }
            return null;
        });
    }

    private static void decode(RowsLogEvent event) {
        ColumnInfo[] columns = event.getTable().getColumnInfo();
        RowsLogBuffer buffer = event.getRowsBuf(StandardCharsets.UTF_8);
        boolean update = event instanceof UpdateRowsLogEvent;
        while (buffer.nextOneRow(event.getColumns())) {
            take(buffer, columns, event.getColumns());
            if (update && buffer.nextOneRow(event.getChangeColumns(), true)) {
                take(buffer, columns, event.getChangeColumns());
            }
            Rounds.rows++;
        }
    }

    private static void take(RowsLogBuffer buffer, ColumnInfo[] columns, BitSet present) {
        Rounds.images++;
        for (int i = 0; i < columns.length; i++) {
            if (present.get(i)) {
                ColumnInfo column = columns[i];
                Rounds.sink = buffer.nextValue(column.name, i, column.type, column.meta, column.unsigned);
            }
        }
    }
}
