//! What both drivers share: rounds over one log for some seconds, a line for each: rows, row images, CPU seconds.

use cpu_time::ProcessTime;
use std::error::Error;
use std::time::Instant;

/// Rows and row images of a log.
pub type Counts = (u64, u64);

/// Runs `decode` on the file named first on the command line until the seconds named second are over.
pub fn rounds(decode: fn(&str) -> Result<Counts, Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let (path, limit) = (&args[1], args[2].parse::<f64>()?);
    let begin = Instant::now();
    loop {
        let start = ProcessTime::now();
        let (rows, images) = decode(path)?;
        println!("{rows} {images} {}", start.elapsed().as_secs_f64());
        if begin.elapsed().as_secs_f64() > limit {
            return Ok(());
        }
    }
}
