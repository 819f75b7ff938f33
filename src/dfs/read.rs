//! Commands that print what files contain: `-cat`, `-head`, `-tail`, `-text`, `-checksum`.

use std::time::Duration;

use flate2::write::MultiGzDecoder;
use std::io::{self, Write};

use super::checksum::FileChecksum;
use super::context::{Context, Item, Screen};
use super::error::Failure;

/// What `-head` and `-tail` show.
const PIECE_BYTES: u64 = 1024;
/// Default pause of `-tail -f` between looks at the file.
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);
/// First bytes of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Prints whole files, as they are.
pub(super) fn cat(context: &Context) -> Result<(), Failure> {
    let mut screen = Screen::new()?;
    context.for_each(&context.args.operands, |item| {
        must_be_file(&item)?;
        context.store.read(&item.named, 0, u64::MAX, &mut |bytes| screen.bytes(bytes))
    })?;
    screen.flush()
}

/// Prints the first kilobyte.
pub(super) fn head(context: &Context) -> Result<(), Failure> {
    let mut screen = Screen::new()?;
    context.for_each(&context.args.operands, |item| {
        must_be_file(&item)?;
        context.store.read(&item.named, 0, PIECE_BYTES, &mut |bytes| screen.bytes(bytes))
    })?;
    screen.flush()
}

/// Prints the last kilobyte, and with `-f` what is added.
pub(super) fn tail(context: &Context) -> Result<(), Failure> {
    let text = super::path::text_of(&context.args.operands[0])?;
    let named = context.resolver.resolve(text)?;
    let mut status = context.store.status(&named)?;
    must_be_file(&Item { named: named.clone(), status: status.clone() })?;
    let pause = match context.args.value("s") {
        Some(text) => Duration::from_millis(text.parse().map_err(|_| {
            Failure::Value(format!("-s: `{text}' is not a number of milliseconds"))
        })?),
        None => FOLLOW_PAUSE,
    };
    let mut screen = Screen::new()?;
    let mut shown = status.length.saturating_sub(PIECE_BYTES);
    loop {
        if status.length > shown {
            let length = status.length - shown;
            context.store.read(&named, shown, length, &mut |bytes| screen.bytes(bytes))?;
            screen.flush()?;
        }
        shown = status.length;
        if !context.args.has("f") {
            return Ok(());
        }
        std::thread::sleep(pause);
        status = context.store.status(&named)?;
        shown = shown.min(status.length);
    }
}

/// Prints files, gzip ones decoded.
pub(super) fn text(context: &Context) -> Result<(), Failure> {
    let mut screen = Screen::new()?;
    context.for_each(&context.args.operands, |item| {
        must_be_file(&item)?;
        let mut decoder = Decoder::Unknown(Vec::new());
        let path = &item.named.typed;
        context
            .store
            .read(&item.named, 0, u64::MAX, &mut |bytes| decoder.push(bytes, &mut screen, path))?;
        decoder.end(&mut screen, path)
    })?;
    screen.flush()
}

/// Decodes as the first bytes say.
enum Decoder {
    /// Fewer bytes seen than a magic number has.
    Unknown(Vec<u8>),
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
}

impl Decoder {
    fn push(&mut self, bytes: &[u8], screen: &mut Screen, path: &str) -> Result<(), Failure> {
        match self {
            Decoder::Plain => screen.bytes(bytes),
            Decoder::Gzip(decoder) => {
                decoder.write_all(bytes).map_err(|error| broken(path, &error))?;
                pass_on(decoder.get_mut(), screen)
            }
            Decoder::Unknown(seen) => {
                seen.extend_from_slice(bytes);
                if seen.len() < GZIP_MAGIC.len() {
                    return Ok(());
                }
                let seen = std::mem::take(seen);
                *self = if seen.starts_with(&GZIP_MAGIC) {
                    Decoder::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))
                } else {
                    Decoder::Plain
                };
                self.push(&seen, screen, path)
            }
        }
    }

    fn end(self, screen: &mut Screen, path: &str) -> Result<(), Failure> {
        match self {
            Decoder::Unknown(seen) => screen.bytes(&seen),
            Decoder::Plain => Ok(()),
            Decoder::Gzip(decoder) => {
                let mut rest = decoder.finish().map_err(|error| broken(path, &error))?;
                pass_on(&mut rest, screen)
            }
        }
    }
}

fn pass_on(decoded: &mut Vec<u8>, screen: &mut Screen) -> Result<(), Failure> {
    screen.bytes(decoded)?;
    decoded.clear();
    Ok(())
}

fn broken(path: &str, error: &io::Error) -> Failure {
    Failure::at(path, format!("Input/output error: {error}"))
}

/// Prints HDFS's checksum of each file.
pub(super) fn checksum(context: &Context) -> Result<(), Failure> {
    let verbose = context.args.has("v");
    let mut screen = Screen::new()?;
    context.for_each(&context.args.operands, |item| {
        must_be_file(&item)?;
        let mut sum = FileChecksum::new(item.status.block_size);
        context.store.read(&item.named, 0, u64::MAX, &mut |bytes| {
            sum.update(bytes);
            Ok(())
        })?;
        let (algorithm, hex) = sum.finish();
        let path = &item.named.typed;
        let tail =
            if verbose { format!("\tBlockSize={}", item.status.block_size) } else { String::new() };
        screen.line(format_args!("{path}\t{algorithm}\t{hex}{tail}"))
    })?;
    screen.flush()
}

fn must_be_file(item: &Item) -> Result<(), Failure> {
    if item.status.directory {
        return Err(Failure::at(&*item.named.typed, "Is a directory"));
    }
    Ok(())
}
