//! Commands that print what files contain: `-cat`, `-head`, `-tail`, `-checksum`.

use std::ffi::OsString;
use std::time::Duration;

use super::interrupt;
use crate::dfs::context::{Context, Screen};
use crate::dfs::fs::{Failure, Item, Problem, text_of};

/// Bytes that `-head` and `-tail` print.
const PIECE_BYTES: u64 = 1024;
/// Default pause of `-tail -f` between checks of the file.
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

/// Prints whole files, as they are.
pub(super) fn cat(context: &Context) -> Result<(), Failure> {
    print_files(context, &context.args.operands)
}

/// Prints all files that the operands name.
pub(super) fn print_files(context: &Context, operands: &[OsString]) -> Result<(), Failure> {
    let mut screen = Screen::new()?;
    context.for_each(operands, |item| {
        must_be_file(&item)?;
        context.store.read(&item.named, 0, u64::MAX, &mut |bytes| screen.bytes(bytes))
    })?;
    screen.flush()
}

/// Prints the first kilobyte.
pub(super) fn head(context: &Context) -> Result<(), Failure> {
    let Item { named, .. } = only_file(context)?;
    let mut screen = Screen::new()?;
    context.store.read(&named, 0, PIECE_BYTES, &mut |bytes| screen.bytes(bytes))?;
    screen.flush()
}

/// The file that the one operand names: `-head` and `-tail` expand no patterns, as in Hadoop.
fn only_file(context: &Context) -> Result<Item, Failure> {
    let named = context.resolver.resolve(text_of(&context.args.operands[0])?)?;
    let status = context.store.status(&named)?;
    let item = Item { named, status };
    must_be_file(&item)?;
    Ok(item)
}

/// Prints the last kilobyte, and with `-f` every addition, as soon as its writer has flushed it.
pub(super) fn tail(context: &Context) -> Result<(), Failure> {
    let Item { named, status } = only_file(context)?;
    let pause = match context.args.value("s") {
        Some(text) => Duration::from_millis(text.parse().map_err(|_| {
            Failure::Value(format!("-s: `{text}' is not a number of milliseconds"))
        })?),
        None => FOLLOW_PAUSE,
    };
    let follows = context.args.has("f");
    if follows {
        interrupt::watch(&context.store)?;
    }
    let mut screen = Screen::new()?;
    let mut printed = status.length.saturating_sub(PIECE_BYTES);
    loop {
        // The NameNode does not know how far an open file was flushed; a reader asks the DataNodes.
        context.store.read(&named, printed, u64::MAX, &mut |bytes| {
            printed += bytes.len() as u64;
            screen.bytes(bytes)
        })?;
        screen.flush()?;
        if !follows {
            return Ok(());
        }
        std::thread::sleep(pause);
        let status = context.store.status(&named)?;
        if !status.open {
            // It may have been truncated.
            printed = printed.min(status.length);
        }
    }
}

/// Prints HDFS's checksum of each file.
pub(super) fn checksum(context: &Context) -> Result<(), Failure> {
    let verbose = context.args.has("v");
    let mut screen = Screen::new()?;
    context.for_each(&context.args.operands, |item| {
        must_be_file(&item)?;
        let path = &item.named.typed;
        let Some(sum) = context.store.checksum(&item.named)? else {
            return screen.line(format_args!("{path}\tNONE\t"));
        };
        let (algorithm, hex) = (sum.algorithm(), sum.hex());
        let tail =
            if verbose { format!("\tBlockSize={}", item.status.block_size) } else { String::new() };
        screen.line(format_args!("{path}\t{algorithm}\t{hex}{tail}"))
    })?;
    screen.flush()
}

fn must_be_file(item: &Item) -> Result<(), Failure> {
    if item.status.directory {
        return Err(Failure::at(&*item.named.typed, Problem::IsDirectory));
    }
    Ok(())
}
