//! mysql_cdc reads from files only, without a buffer: as its own example does.

use mysql_cdc::binlog_reader::BinlogReader;
use mysql_cdc::events::binlog_event::BinlogEvent;
use std::error::Error;
use std::fs::File;
use std::hint::black_box;

fn decode(path: &str) -> Result<peers::Counts, Box<dyn Error>> {
    let reader = BinlogReader::new(File::open(path)?).map_err(|e| format!("{e:?}"))?;
    let (mut rows, mut images) = (0, 0);
    for result in reader.read_events() {
        let (_, event) = result.map_err(|e| format!("{e:?}"))?;
        let (count, per_row) = match &event {
            BinlogEvent::WriteRowsEvent(e) => (e.rows.len(), 1),
            BinlogEvent::DeleteRowsEvent(e) => (e.rows.len(), 1),
            BinlogEvent::UpdateRowsEvent(e) => (e.rows.len(), 2),
            _ => continue,
        };
        rows += count as u64;
        images += (count * per_row) as u64;
        black_box(&event);
    }
    Ok((rows, images))
}

fn main() -> Result<(), Box<dyn Error>> {
    peers::rounds(decode)
}
