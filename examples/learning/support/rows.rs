//! Rows of numbers. A job in rounds parses them once: maps pack them into chunks of bytes, which each round reads as numbers.

use std::fmt::Write;

use mr_api::map::enough;
use mr_api::{Context, Done, Emit, Line, Lines, Mapper, Result, Sink};

/// Numbers of a chunk: so many that its key costs nothing beside them, so few that tasks get equal shares.
const CHUNK_NUMBERS: usize = 4096;
/// Most numbers of a row: a matrix of so many rows and columns takes eight megabytes.
pub const WIDTH_MAX: usize = 1000;
/// Bytes of a number.
const NUMBER_BYTES: usize = size_of::<f64>();

/// The map that packed the chunk, and the number of the chunk there: the same in each attempt.
pub type ChunkKey = (u32, u32);
/// How many numbers a row has, and the numbers of all rows.
pub type Chunk = (u32, Vec<u8>);
/// A chunk as it is read.
pub type ChunkView<'a> = (u32, &'a [u8]);

/// Packs lines of numbers, separated by spaces.
#[derive(Clone, Default)]
pub struct Pack {
    map: u32,
    chunk: u32,
    row: Vec<f64>,
    width: usize,
    bytes: Vec<u8>,
}

impl Pack {
    fn flush<S: Sink>(&mut self, out: &mut Emit<ChunkKey, Chunk, S>) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        out.emit((self.map, self.chunk), (self.width as u32, self.bytes.as_slice()))?;
        self.chunk += 1;
        self.bytes.clear();
        Ok(())
    }
}

impl Mapper for Pack {
    type In = Lines;
    type Key = ChunkKey;
    type Value = Chunk;

    fn setup(&mut self, context: &Context) -> Result<()> {
        self.map = context.attempt().task.index;
        Ok(())
    }

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<ChunkKey, Chunk, S>) -> Result<()> {
        parse(line.bytes, &mut self.row)?;
        check_width(self.width, self.row.len())?;
        self.width = self.row.len();
        self.row.iter().for_each(|number| self.bytes.extend_from_slice(&number.to_le_bytes()));
        if self.bytes.len() < CHUNK_NUMBERS * NUMBER_BYTES { Ok(()) } else { self.flush(out) }
    }

    fn cleanup<S: Sink>(&mut self, out: &mut Emit<ChunkKey, Chunk, S>) -> Result<()> {
        self.flush(out)
    }
}

/// Reads a line of numbers into `row`.
///
/// # Errors
/// A word that is no finite number; no number, or more than [`WIDTH_MAX`].
pub fn parse(line: &[u8], row: &mut Vec<f64>) -> Result<()> {
    row.clear();
    for word in std::str::from_utf8(line)?.split_ascii_whitespace() {
        let number = mr_api::parse::<f64>(word, "finite number", line)?;
        if !number.is_finite() {
            let line = line.escape_ascii();
            return Err(format!("`{word}` is no finite number, in the record `{line}`").into());
        }
        row.push(number);
    }
    match row.len() {
        1..=WIDTH_MAX => Ok(()),
        count => Err(format!("a line has {count} numbers: 1 to {WIDTH_MAX} are allowed").into()),
    }
}

/// Refuses rows of two lengths; 0 is that of no row.
///
/// # Errors
/// If they differ.
pub fn check_width(before: usize, now: usize) -> Result<()> {
    if before == 0 || before == now {
        return Ok(());
    }
    Err(format!("a line has {now} numbers, and another has {before}").into())
}

/// Reads packed numbers into `numbers`.
pub fn unpack(bytes: &[u8], numbers: &mut Vec<f64>) {
    numbers.clear();
    numbers.extend(bytes.as_chunks().0.iter().map(|number| f64::from_le_bytes(*number)));
}

/// Numbers as text, separated by spaces; they read back as the same.
pub fn words(numbers: &[f64]) -> String {
    let mut line = String::new();
    write_words(numbers, &mut line);
    line
}

/// The same into a line that is there already.
pub fn write_words(numbers: &[f64], line: &mut String) {
    line.clear();
    for (index, number) in numbers.iter().enumerate() {
        let between = if index == 0 { "" } else { " " };
        write!(line, "{between}{number}").expect("a string takes all text");
    }
}

/// Hands on the lines at the beginning of an output that have this in front, without it.
///
/// # Errors
/// Those of the file system and of `each`.
pub fn lines_with(
    done: &Done<'_>,
    front: &str,
    mut each: impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    done.for_each(&Lines, |line| match std::str::from_utf8(line.bytes)?.strip_prefix(front) {
        Some(rest) => each(rest),
        None => enough(),
    })
}
