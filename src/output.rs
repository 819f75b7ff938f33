//! Output of commands: exit codes, sizes, times, and both standard streams.
//!
//! Invariants: nothing else in this program writes to the standard streams, except the drawing of progress and the console of jobs, which keeps the same
//! rules. So text from others reaches a terminal only in printable form; a pipe or file gets it unchanged. The buffer ([`Buffered`]) is flushed before
//! anything else goes to either stream, so both streams in one file keep the order of the command. A reader that leaves ends no command; any other failure
//! to write standard output is remembered, and told at the end. Once a command is asked for JSON ([`only_json`]), standard output gets nothing else: whatever text
//! it prints goes to standard error.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mr_api::streaming::Speaker;
use protocol::printable::printable;

/// All went well.
pub(crate) const EXIT_OK: u8 = 0;
/// Something failed.
pub(crate) const EXIT_FAILED: u8 = 1;
/// A daemon whose journal stopped: start it again (sysexits' EX_TEMPFAIL).
pub(crate) const EXIT_JOURNAL_STOPPED: u8 = 75;
/// Wrong arguments (Hadoop's -1).
pub(crate) const EXIT_USAGE: u8 = 255;

/// Why standard output was not written; empty while all went well.
static UNWRITTEN: OnceLock<String> = OnceLock::new();

/// True once standard output is for JSON alone.
static IS_FOR_JSON: AtomicBool = AtomicBool::new(false);

/// From now on standard output gets nothing but JSON ([`print_json`], [`print_json_lines`]): all other text of this process goes to standard error.
pub(crate) fn only_json() {
    IS_FOR_JSON.store(true, Ordering::Relaxed);
}

fn is_for_json() -> bool {
    IS_FOR_JSON.load(Ordering::Relaxed)
}

/// Remembers why standard output could not be written, for [`ended`]; only the first reason counts. A reader that left is none.
fn remember(error: &io::Error) {
    if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) {
        UNWRITTEN.get_or_init(|| without_number(&error.to_string()));
    }
}

/// The exit code of this process after a command that returned `code`. If something that it printed is lost, says so.
pub(crate) fn ended(code: u8) -> u8 {
    // What fails is remembered.
    let _ = pass_on().and_then(|()| out_for_json().flush());
    let Some(reason) = UNWRITTEN.get() else { return code };
    report!("hanno: cannot write to standard output: {reason}");
    if code == EXIT_OK { EXIT_FAILED } else { code }
}

/// Writes to standard output go through here: true if it takes more. If not, the reader has left, or [`ended`] tells why; there is nothing more to print.
///
/// # Errors
/// Those of others than standard output.
pub(crate) fn unless_reader_left(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(_) if UNWRITTEN.get().is_some() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Prints the help or the refusal that clap has for a command line; returns the exit code.
pub(crate) fn end_by_clap(error: &clap::Error) -> u8 {
    if error.use_stderr() {
        // If the terminal is gone, nobody reads this.
        let _ = error.print();
        return EXIT_USAGE;
    }
    if let Err(error) = sys::streams::check_stdout().and_then(|()| error.print()) {
        remember(&error);
    }
    EXIT_OK
}

/// A system's error without its number.
pub(crate) fn without_number(text: &str) -> String {
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Standard output itself: a failure is remembered. Or standard error in its place.
pub(crate) enum Standard<O, E> {
    Output(O),
    Error(E),
}

impl<O: Write, E: Write> Write for Standard<O, E> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Standard::Output(out) => {
                let written = sys::streams::check_stdout().and_then(|()| out.write(bytes));
                written.inspect_err(remember)
            }
            Standard::Error(err) => err.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Standard::Output(out) => out.flush().inspect_err(remember),
            Standard::Error(err) => err.flush(),
        }
    }
}

/// One of the standard streams. To a terminal everything goes in printable form; bytes that are not UTF-8 are replaced.
pub(crate) struct Stream<W> {
    inner: W,
    is_terminal: bool,
}

impl<W: Write> Write for Stream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.inner.write(bytes);
        }
        let text = String::from_utf8_lossy(bytes);
        self.inner.write_all(printable(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Output of [`Buffered`] that is not flushed yet.
static BUFFER: Mutex<Option<BufWriter<Standard<File, File>>>> = Mutex::new(None);
/// Large enough that a listing of thousands of lines takes a handful of writes.
const BUFFER_BYTES: usize = 64 << 10;

/// Standard output for large amounts: buffered here, not line by line. All share one buffer, which ends when the last is dropped or something goes to another
/// stream.
pub(crate) struct Buffered {
    is_terminal: bool,
}

impl Buffered {
    /// # Errors
    /// If standard output is closed, or this process has too many files open.
    pub(crate) fn new() -> io::Result<Self> {
        let mut buffer = BUFFER.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.is_none() {
            let copy = |stream: BorrowedFd<'_>| stream.try_clone_to_owned().map(File::from);
            let out = match is_for_json() {
                true => Standard::Error(copy(io::stderr().as_fd())?),
                false => Standard::Output(copy(io::stdout().as_fd())?),
            };
            *buffer = Some(BufWriter::with_capacity(BUFFER_BYTES, out));
        }
        let is_terminal =
            if is_for_json() { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
        Ok(Buffered { is_terminal })
    }

    /// Prints one line.
    pub(crate) fn line(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        if self.is_terminal {
            return self.text(&format!("{text}\n"));
        }
        with_buffer(|out| out.write_fmt(text).and_then(|()| out.write_all(b"\n")))
    }

    /// Prints without ending the line.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        match self.is_terminal {
            true => self.bytes(printable(text).as_bytes()),
            false => self.bytes(text.as_bytes()),
        }
    }

    /// Writes the bytes of a file unchanged, even to a terminal. Large slices are not copied.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        with_buffer(|out| out.write_all(bytes))
    }

    /// True if standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }
}

impl Write for Buffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.is_terminal {
            true => self.text(&String::from_utf8_lossy(bytes))?,
            false => self.bytes(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        pass_on()
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        // What fails is remembered.
        let _ = pass_on();
    }
}

fn with_buffer(
    work: impl FnOnce(&mut BufWriter<Standard<File, File>>) -> io::Result<()>,
) -> io::Result<()> {
    match &mut *BUFFER.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(out) => work(out),
        None => Ok(()),
    }
}

/// Flushes the buffer to standard output.
fn pass_on() -> io::Result<()> {
    with_buffer(BufWriter::flush)
}

/// Standard output, or what is in its place.
type Out = Stream<Standard<io::StdoutLock<'static>, io::StderrLock<'static>>>;

/// Standard output for text.
pub(crate) fn out() -> Out {
    if !is_for_json() {
        return out_for_json();
    }
    let Stream { inner, is_terminal } = err();
    Stream { inner: Standard::Error(inner), is_terminal }
}

/// Standard output.
fn out_for_json() -> Out {
    let _ = pass_on();
    let inner = io::stdout().lock();
    Stream { is_terminal: inner.is_terminal(), inner: Standard::Output(inner) }
}

/// Standard error.
pub(crate) fn err() -> Stream<io::StderrLock<'static>> {
    let _ = pass_on();
    let inner = io::stderr().lock();
    Stream { is_terminal: inner.is_terminal(), inner }
}

/// Draws on the terminal of standard error, unescaped; the text is this program's own.
pub(crate) fn draw(own: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(own.as_bytes()).and_then(|()| err.flush());
}

/// Prints a line on standard output. If the reader has left, nobody misses the rest; [`ended`] tells of other failures.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let _ = out().write_all(format!("{text}\n").as_bytes());
}

/// Prints a line on standard error.
pub(crate) fn complaint(text: fmt::Arguments<'_>) {
    let _ = err().write_all(text.to_string().as_bytes());
}

/// `println!` that does not end the program when its reader leaves.
macro_rules! say {
    ($($argument:tt)*) => { $crate::output::line(format_args!($($argument)*)) };
}
pub(crate) use say;

/// `eprintln!` that continues when its reader leaves, and sends a terminal no control characters.
macro_rules! report {
    ($($argument:tt)*) => { $crate::output::complaint(format_args!("{}\n", format_args!($($argument)*))) };
}
pub(crate) use report;

/// [`report!`] without a newline at the end.
macro_rules! report_text {
    ($($argument:tt)*) => { $crate::output::complaint(format_args!($($argument)*)) };
}
pub(crate) use report_text;

/// Prints `value` as indented JSON.
pub(crate) fn print_json<T: serde::Serialize>(value: &T) -> io::Result<()> {
    // No part of it may be split between two writes.
    print_json_lines(&serde_json::to_string_pretty(value).map_err(io::Error::from)?)
}

/// Prints text that is JSON: a document, or one for each line.
pub(crate) fn print_json_lines(json: &str) -> io::Result<()> {
    debug_assert!(is_for_json(), "text may be on standard output, too");
    unless_reader_left(out_for_json().write_all(format!("{json}\n").as_bytes())).map(drop)
}

const UNITS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];

/// `-h` of the shell: plain below 1024, `64 M` when exact, else one decimal.
pub(crate) fn human_size(bytes: u64) -> String {
    scaled(bytes, 1, "")
}

/// Sizes in reports: two decimals and `B`.
pub(crate) fn report_size(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { scaled(bytes, 2, "B") }
}

/// Exact multiples of a unit without decimals. An amount that rounds to 1024 of a unit becomes 1 of the next.
fn scaled(bytes: u64, decimals: usize, suffix: &str) -> String {
    let Some((exponent, unit)) = unit_of(bytes) else { return bytes.to_string() };
    let scale = 1u64 << exponent;
    if bytes.is_multiple_of(scale) {
        return format!("{} {unit}{suffix}", bytes >> exponent);
    }
    let text = format!("{:.decimals$}", bytes as f64 / scale as f64);
    match unit_of(scale << 10) {
        Some((_, next)) if text.starts_with("1024") => format!("{:.decimals$} {next}{suffix}", 1.0),
        _ => format!("{text} {unit}{suffix}"),
    }
}

fn unit_of(bytes: u64) -> Option<(u32, char)> {
    let exponent = bytes.checked_ilog2().unwrap_or(0) / 10 * 10;
    let index = (exponent / 10).checked_sub(1)? as usize;
    Some((exponent, *UNITS.get(index)?))
}

/// `yyyy-MM-dd HH:mm` in `zone`.
pub(crate) fn minute_time(ms: u64, zone: &TimeZone) -> String {
    format_time(ms, zone, "%Y-%m-%d %H:%M")
}

/// `yyyy-MM-dd HH:mm:ss` in UTC.
pub(crate) fn second_time_utc(ms: u64) -> String {
    second_time(ms, &TimeZone::UTC)
}

/// The same in another zone.
pub(crate) fn second_time(ms: u64, zone: &TimeZone) -> String {
    format_time(ms, zone, "%Y-%m-%d %H:%M:%S")
}

/// The zone of this machine. By itself the library opens the directories of all zones, to find the name that `/etc/localtime` leads to.
pub(crate) fn local_zone() -> &'static TimeZone {
    static ZONE: OnceLock<TimeZone> = OnceLock::new();
    ZONE.get_or_init(|| {
        let of_file = || {
            let mut bytes = Vec::new();
            sys::fs::open_input(Path::new("/etc/localtime")).ok()?.read_to_end(&mut bytes).ok()?;
            TimeZone::tzif("", &bytes).ok()
        };
        match std::env::var_os("TZ") {
            Some(_) => TimeZone::system(),
            None => of_file().unwrap_or_else(TimeZone::system),
        }
    })
}

/// How a line of Hadoop's log begins that `who` writes now.
pub(crate) fn log_lead(level: &str, who: Speaker) -> String {
    let who = match who {
        Speaker::Job => "mapreduce.Job",
        Speaker::JobSubmitter => "mapreduce.JobSubmitter",
        Speaker::YarnClient => "impl.YarnClientImpl",
        Speaker::StreamJob => "streaming.StreamJob",
    };
    let now = Timestamp::now().to_zoned(local_zone().clone());
    format!("{} {level} {who}: ", now.strftime("%Y-%m-%d %H:%M:%S,%3f"))
}

/// As Java prints a date: `Mon Jan 05 10:30:00 UTC 2026`.
pub(crate) fn java_date(ms: u64, zone: &TimeZone) -> String {
    format_time(ms, zone, "%a %b %d %H:%M:%S %Z %Y")
}

/// The same with the zone as an offset: `Mon Jan 05 10:30:00 +0000 2026`.
pub(crate) fn offset_date(ms: u64, zone: &TimeZone) -> String {
    format_time(ms, zone, "%a %b %d %H:%M:%S %z %Y")
}

fn format_time(ms: u64, zone: &TimeZone, format: &str) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    match Timestamp::from_millisecond(ms) {
        Ok(time) => time.to_zoned(zone.clone()).strftime(format).to_string(),
        Err(_) => "?".to_owned(),
    }
}

/// `rwxr-xr-x`, with `t` or `T` last for sticky directories.
pub(crate) fn permissions(mode: u16) -> String {
    let mut text: String = (0..9)
        .map(|place| if mode & (0o400 >> place) == 0 { '-' } else { char::from(b"rwx"[place % 3]) })
        .collect();
    if mode & 0o1000 != 0 {
        let last = if mode & 1 == 0 { 'T' } else { 't' };
        text.pop();
        text.push(last);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_nothing_that_steers_it() {
        let name = "a\x1b[2J\u{9b}\u{202e}ü\n".as_bytes();
        for is_terminal in [true, false] {
            let mut stream = Stream { inner: Vec::new(), is_terminal };
            stream.write_all(name).unwrap();
            stream.write_all(b"\x9b\xff").unwrap();
            let text = String::from_utf8_lossy(&stream.inner);
            assert_eq!(text.contains(protocol::printable::steers), !is_terminal, "{text:?}");
            assert!(is_terminal || stream.inner.starts_with(name));
        }
    }

    #[test]
    fn sizes() {
        for (bytes, human, report) in [
            (0, "0", "0 B"),
            (1023, "1023", "1023 B"),
            (1024, "1 K", "1 KB"),
            (1536, "1.5 K", "1.50 KB"),
            (64 << 20, "64 M", "64 MB"),
            ((1 << 20) - 30, "1.0 M", "1023.97 KB"),
            ((1 << 30) - 1, "1.0 G", "1.00 GB"),
            (3 << 29, "1.5 G", "1.50 GB"),
            (u64::MAX, "16.0 E", "16.00 EB"),
        ] {
            assert_eq!(human_size(bytes), human);
            assert_eq!(report_size(bytes), report);
        }
    }

    #[test]
    fn times() {
        let ms = 1_767_609_005_000;
        assert_eq!(minute_time(ms, &TimeZone::UTC), "2026-01-05 10:30");
        assert_eq!(second_time_utc(ms), "2026-01-05 10:30:05");
        assert_eq!(java_date(ms, &TimeZone::UTC), "Mon Jan 05 10:30:05 UTC 2026");
        assert_eq!(offset_date(ms, &TimeZone::UTC), "Mon Jan 05 10:30:05 +0000 2026");
        assert_eq!(minute_time(u64::MAX, &TimeZone::UTC), "?");
    }

    #[test]
    fn modes() {
        for (mode, text) in [
            (0o755, "rwxr-xr-x"),
            (0o644, "rw-r--r--"),
            (0, "---------"),
            (0o1777, "rwxrwxrwt"),
            (0o1770, "rwxrwx--T"),
        ] {
            assert_eq!(permissions(mode), text);
        }
    }
}
