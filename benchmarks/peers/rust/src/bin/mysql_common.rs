//! mysql_common's stream of events over a buffered file.

use mysql_common::binlog::consts::BinlogVersion;
use mysql_common::binlog::events::EventData;
use mysql_common::binlog::{BinlogFileHeader, EventStreamReader};
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::BufReader;

fn decode(path: &str) -> Result<peers::Counts, Box<dyn Error>> {
    let mut input = BufReader::with_capacity(1 << 20, File::open(path)?);
    BinlogFileHeader::read(&mut input)?;
    let mut reader = EventStreamReader::new(BinlogVersion::Version4);
    let (mut rows, mut images) = (0, 0);
    while let Some(event) = reader.read(&mut input)? {
        if !(19..=41).contains(&event.header().event_type_raw()) {
            continue; // MariaDB's own events, which it does not know
        }
        let Some(EventData::RowsEvent(data)) = event.read_data()? else {
            continue;
        };
        let table = reader.get_tme(data.table_id()).ok_or("no table map")?;
        for row in data.rows(table) {
            let (before, after) = row?;
            rows += 1;
            images += u64::from(before.is_some()) + u64::from(after.is_some());
            black_box((&before, &after));
        }
    }
    Ok((rows, images))
}

fn main() -> Result<(), Box<dyn Error>> {
    peers::rounds(decode)
}
