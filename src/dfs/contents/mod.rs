//! Commands that read and write the contents of files: they copy into, out of and within the cluster, print, append and truncate.
//!
//! | | |
//! |---|---|
//! | one file per command | [`copy`], [`get`], [`put`], [`read`], [`rewrite`], [`text`] |
//! | many files at a time, and their progress | [`pool`], [`progress`] |
//! | nothing is left half written | [`publish`], [`draft`], [`interrupt`] |

mod copy;
mod draft;
mod get;
mod interrupt;
mod pool;
mod progress;
mod publish;
mod put;
mod read;
mod rewrite;
mod text;

use super::args::{Opt, attached, flag, value};
use super::command::{Command, MANY, command};
use super::context::Context;
use super::fs::Failure;

const PUT_OPTIONS: &[Opt] = &[flag("f"), flag("p"), flag("l"), flag("d"), value("t"), value("q")];
const GET_OPTIONS: &[Opt] =
    &[flag("f"), flag("p"), flag("ignoreCrc"), flag("crc"), value("t"), value("q")];
const PUT_USAGE: &str =
    "[-f] [-p] [-l] [-d] [-t <thread count>] [-q <thread pool queue size>] <localsrc> ... <dst>";
const GET_USAGE: &str = "[-f] [-p] [-crc] [-ignoreCrc] [-t <thread count>] [-q <thread pool queue size>] <src> ... <localdst>";
const PUT_HELP: &str = "Copy files and trees of this machine into the file system; the source - is standard input. Copying
fails if the file already exists, unless the -f flag is given.
Flags:

  -p                 Preserves timestamps, ownership and the mode.
  -f                 Overwrites the destination if it already exists.
  -t <thread count>  Number of files copied at a time, default 32, at most 512.
  -q <queue size>    Number of files that may wait for a thread, default 1024, at most 65536.
  -l                 Makes one replica of each file only.
  -d                 Writes under the final name at once, without the temporary file <dst>._COPYING_.";
const GET_HELP: &str =
    "Copy files and trees that match the file pattern <src> to this machine. When copying multiple
files, the destination must be a directory.
Flags:

  -p                 Preserves timestamps, ownership and the mode.
  -f                 Overwrites the destination if it already exists.
  -crc               Also writes a checksum file .<name>.crc beside each file.
  -ignoreCrc         Bytes that match their checksum on no replica are copied as they are, instead of an error.
  -t <thread count>  Number of files copied at a time, default 32, at most 512.
  -q <queue size>    Number of files that may wait for a thread, default 1024, at most 65536.";
const GETMERGE_HELP: &str = "Get all the files in the directories that match the source file pattern and merge and sort them to only
one file on local fs. <src> is kept.

  -nl               Add a newline character at the end of each file.
  -skip-empty-file  Do not add new line character for empty file.";
const TAIL_HELP: &str = "Show the last 1KB of the file.

  -f  Shows appended data as the file grows.
  -s  With -f, defines the sleep interval between iterations in milliseconds.";
const CP_HELP: &str = "Copy files that match the file pattern <src> to a destination. When copying multiple files, the
destination must be a directory.
Flags:

  -p[topax]          Preserve file attributes [topx] (timestamps, ownership, permission, ACL, XAttr). If -p is
                     specified with no <arg>, then preserves timestamps, ownership, permission.
  -f                 Overwrite the destination if it already exists.
  -d                 Skip creation of temporary file (<dst>._COPYING_).
  -t <thread count>  Number of files copied at a time, default 32, at most 512.
  -q <queue size>    Number of files that may wait for a thread, default 1024, at most 65536.";
const TEXT_HELP: &str = "Takes a source file and outputs the file in text format.
The allowed formats are gzip, bzip2, zstd, Hadoop's snappy and deflate streams, SequenceFile and Avro.";
const CP_OPTIONS: &[Opt] = &[flag("f"), attached("p", "topax"), flag("d"), value("t"), value("q")];

/// Hadoop has never implemented it either; scripts get Hadoop's message.
fn move_to_local(_: &Context) -> Result<(), Failure> {
    Err(Failure::Text("Option '-moveToLocal' is not implemented yet.".to_owned()))
}

/// The commands of this folder.
pub(super) const COMMANDS: &[&[Command]] = &[OWN, rewrite::COMMANDS];

#[rustfmt::skip]
const OWN: &[Command] = &[
    command("cat", "[-ignoreCrc] <src> ...", (1, MANY), &[flag("ignoreCrc")], read::cat, "Fetch all files that match the file pattern <src> and display their content on stdout."),
    command("checksum", "[-v] <src> ...", (1, MANY), &[flag("v")], read::checksum, "Dump checksum information for files that match the file pattern <src> to stdout. Note that this requires\na round-trip to a datanode storing each block of the file.\n\n  -v  displays blocks size for the file."),
    command("copyFromLocal", PUT_USAGE, (1, MANY), PUT_OPTIONS, put::put, "Identical to the -put command."),
    command("copyToLocal", GET_USAGE, (1, MANY), GET_OPTIONS, get::get, "Identical to the -get command."),
    command("cp", "[-f] [-p | -p[topax]] [-d] [-t <thread count>] [-q <thread pool queue size>] <src> ... <dst>", (2, MANY), CP_OPTIONS, copy::cp, CP_HELP),
    command("get", GET_USAGE, (1, MANY), GET_OPTIONS, get::get, GET_HELP),
    command("getmerge", "[-nl] [-skip-empty-file] <src> <localdst>", (2, MANY), &[flag("nl"), flag("skip-empty-file")], get::getmerge, GETMERGE_HELP),
    command("head", "<file>", (1, 1), &[], read::head, "Show the first 1KB of the file."),
    command("moveFromLocal", PUT_USAGE, (1, MANY), PUT_OPTIONS, put::put, "Same as -put, except that the source is deleted after it's copied."),
    command("moveToLocal", "<src> <localdst>", (0, MANY), &[], move_to_local, "Not implemented yet"),
    command("put", PUT_USAGE, (1, MANY), PUT_OPTIONS, put::put, PUT_HELP),
    command("tail", "[-f] [-s <sleep interval>] <file>", (1, 1), &[flag("f"), value("s")], read::tail, TAIL_HELP),
    command("text", "[-ignoreCrc] <src> ...", (1, MANY), &[flag("ignoreCrc")], text::text, TEXT_HELP),
];
