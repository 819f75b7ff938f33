//! The table of the shell's commands that read, copy, list and change names: usage, options and help text of each.
//!
//! Families with files of their own bring tables of their own; [`GROUPS`] joins them.

use super::args::{Opt, attached, flag, met, value, value_unless_last};
use super::command::{Command, MANY, command, deprecated};
use super::context::Context;
use super::error::Failure;
use super::{
    copy, find, get, list, mode, namespace, put, read, rewrite, rights, snapshot, stat, text,
    touch, trash, usage,
};

const PUT_OPTIONS: &[Opt] = &[flag("f"), flag("p"), flag("l"), flag("d"), value("t"), value("q")];
const GET_OPTIONS: &[Opt] =
    &[flag("f"), flag("p"), flag("ignoreCrc"), flag("crc"), value("t"), value("q")];
const LS_OPTIONS: &[Opt] = &[
    flag("C"),
    flag("d"),
    flag("h"),
    flag("q"),
    flag("R"),
    flag("t"),
    flag("S"),
    flag("r"),
    flag("u"),
    flag("e"),
    flag("json"),
];
const COUNT_OPTIONS: &[Opt] = &[
    flag("q"),
    flag("h"),
    flag("v"),
    flag("u"),
    flag("x"),
    value_unless_last("t"),
    flag("e"),
    flag("s"),
    flag("json"),
];
const DU_OPTIONS: &[Opt] = &[flag("s"), flag("h"), flag("v"), flag("x"), flag("json")];
const RM_OPTIONS: &[Opt] = &[flag("f"), flag("r"), flag("R"), flag("skipTrash"), flag("safely")];
const TEST_OPTIONS: &[Opt] =
    &[flag("d"), flag("e"), flag("f"), flag("s"), flag("w"), flag("r"), flag("z")];

const PUT_USAGE: &str =
    "[-f] [-p] [-l] [-d] [-t <thread count>] [-q <thread pool queue size>] <localsrc> ... <dst>";
const GET_USAGE: &str = "[-f] [-p] [-crc] [-ignoreCrc] [-t <thread count>] [-q <thread pool queue size>] <src> ... <localdst>";

const PUT_HELP: &str = "Copy files and trees of this machine into the file system; the source - is standard input. Copying
fails if the file already exists, unless the -f flag is given.
Flags:

  -p                 Preserves timestamps, ownership and the mode.
  -f                 Overwrites the destination if it already exists.
  -t <thread count>  Number of files copied at a time, default 32.
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
  -t <thread count>  Number of files copied at a time, default 32.";
const LS_HELP: &str = "List the contents that match the specified file pattern. If path is not specified, the contents of
/user/<currentUser> will be listed. For a directory a list of its direct children is returned (unless
-d option is specified).

Directory entries are of the form:
  permissions - userId groupId sizeOfDirectory(in bytes) modificationDate(yyyy-MM-dd HH:mm) directoryName

and file entries are of the form:
  permissions numberOfReplicas userId groupId sizeOfFile(in bytes) modificationDate(yyyy-MM-dd HH:mm) fileName

  -C      Display the paths of files and directories only.
  -d      Directories are listed as plain files.
  -h      Formats the sizes of files in a human-readable fashion rather than a number of bytes.
  -q      Print ? instead of non-printable characters.
  -R      Recursively list the contents of directories.
  -t      Sort files by modification time (most recent first).
  -S      Sort files by size.
  -r      Reverse the order of the sort.
  -u      Use time of last access instead of modification for display and sorting.
  -e      Display the erasure coding policy of files and directories.
  --json  Print JSON.";
const COUNT_HELP: &str =
    "Count the number of directories, files and bytes under the paths that match the specified file
pattern. The output columns are:
DIR_COUNT FILE_COUNT CONTENT_SIZE PATHNAME
or, with the -q option:
QUOTA REM_QUOTA SPACE_QUOTA REM_SPACE_QUOTA DIR_COUNT FILE_COUNT CONTENT_SIZE PATHNAME

  -h  shows file sizes in human readable format.
  -v  displays a header line.
  -t  with -q or -u: displays quotas by storage type instead.
  -u  shows the quota and the usage against the quota without the detailed content summary.
  -x  excludes snapshots from being calculated; not with -q or -u.
  -e  shows the erasure coding policy.
  -s  shows what only snapshots still have.";
const DU_HELP: &str = "Show the amount of space, in bytes, used by the files that match the specified file pattern:
the size of one copy, the space of all replicas, the path.

  -s  Rather than showing the size of each individual file that matches the pattern, shows the total size.
  -h  Formats the sizes of files in a human-readable fashion rather than a number of bytes.
  -v  option displays a header line.
  -x  Excludes snapshots from being counted.";
const RM_HELP: &str = "Delete all files that match the specified file pattern. Equivalent to the Unix command \"rm <src>\".
Where the trash is on, what is deleted is moved to /user/<you>/.Trash/Current.

  -f          If the file does not exist, do not display a diagnostic message or modify the exit status.
  -[rR]       Recursively deletes directories.
  -skipTrash  option bypasses trash, if enabled, and immediately deletes <src>.
  -safely     option requires safety confirmation before deleting a directory with more than 100 files.";
const STAT_HELP: &str = "Print statistics about the file/directory at <path> in the specified format.
Format accepts permissions in octal (%a) and symbolic (%A), filesize in bytes (%b), type (%F), group name
of owner (%g), name (%n), block size (%o), replication (%r), user name of owner (%u), access date (%x, %X),
modification date (%y, %Y).
%x and %y show UTC date as \"yyyy-MM-dd HH:mm:ss\" and %X and %Y show milliseconds since January 1, 1970 UTC.
If the format is not specified, %y is used by default.";
const CHMOD_HELP: &str = "Changes permissions of a file. This works similar to the shell's chmod command with a few exceptions.

  -R           modifies the files recursively. This is the only option currently supported.
  <MODE>       Mode is the same as mode used for the shell's command. The only letters recognized are
               'rwxXt', e.g. +t,a+r,g-w,+rwx,o=r.
  <OCTALMODE>  Mode specifed in 3 or 4 digits. If 4 digits, the first may be 1 or 0 to turn the sticky bit
               on or off, respectively. Unlike the shell command, it is not possible to specify only part of
               the mode, e.g. 754 is same as u=rwx,g=rx,o=r.

If none of 'augo' is specified, 'a' is assumed and unlike the shell command, no umask is applied.";
const CHOWN_HELP: &str = "Changes owner and group of a file. This is similar to the shell's chown command with a few exceptions.

  -R  modifies the files recursively. This is the only option currently supported.

If only the owner or group is specified, then only the owner or group is modified. The owner and group names
may only consist of digits, alphabet, and any of [-_./@a-zA-Z0-9]. The names are case sensitive.";
const SETREP_HELP: &str = "Set the replication level of a file. If <path> is a directory then the command recursively changes the
replication factor of all files under the directory tree rooted at <path>.

  -w  It requests that the command waits for the replication to complete. This can potentially take a very
      long time.
  -R  It is accepted for backwards compatibility. It has no effect.";
const TEST_HELP: &str = "Answer various questions about <path>, with result via exit status.

  -d  return 0 if <path> is a directory.
  -e  return 0 if <path> exists.
  -f  return 0 if <path> is a file.
  -s  return 0 if file <path> is greater than zero bytes in size.
  -w  return 0 if file <path> exists and write permission is granted.
  -r  return 0 if file <path> exists and read permission is granted.
  -z  return 0 if file <path> is zero bytes in size, else return 1.";
const MV_HELP: &str = "Move files that match the specified file pattern <src> to a destination <dst>. When moving multiple
files, the destination must be a directory.";
const MKDIR_HELP: &str = "Create a directory in specified location.

  -p  Do not fail if the directory already exists.";
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
  -t <thread count>  Number of files copied at a time, default 32.";
const EXPUNGE_HELP: &str = "Delete files from the trash that are older than the retention threshold, and make a checkpoint of what
was deleted since the last one.

  -immediate  Deletes all files in the trash immediately, ignoring the retention threshold.";
const FIND_HELP: &str = "Finds all files that match the specified expression and applies selected actions to them. If no <path>
is specified then defaults to the current working directory. If no expression is specified then defaults
to -print. Links of this machine are followed, as -L and -H ask; in the cluster there are none.

The following primary expressions are recognised:
  -name pattern
  -iname pattern
    Evaluates as true if the basename of the file matches the pattern using standard file system globbing.
    If -iname is used then the match is case insensitive.

  -print
  -print0
    Always evaluates to true. Causes the current pathname to be written to standard output followed by a
    newline. If the -print0 expression is used then an ASCII NULL character is appended rather than a newline.

The following operators are recognised:
  expression -a expression
  expression -and expression
  expression expression
    Logical AND operator for joining two expressions. The second expression will not be applied if the first
    fails.";
const TEXT_HELP: &str = "Takes a source file and outputs the file in text format.
The allowed formats are gzip, bzip2, zstd, Hadoop's snappy and deflate streams, SequenceFile and Avro.";
const TOUCH_HELP: &str = "Updates the access and modification times of the file specified by the <path> to the current time. If the
file does not exist, then a zero length file is created at <path> with current time as the timestamp.

  -a                 Change only the access time.
  -m                 Change only the modification time.
  -t TIMESTAMP       Use specified timestamp instead of current time, format yyyyMMdd:HHmmss, local time.
  -c                 Do not create any files.";

const CP_OPTIONS: &[Opt] = &[flag("f"), attached("p", "topax"), flag("d"), value("t"), value("q")];
const TOUCH_OPTIONS: &[Opt] = &[flag("a"), flag("m"), value("t"), flag("c")];

/// Hadoop has never made it either; scripts get its words.
fn move_to_local(_: &Context) -> Result<(), Failure> {
    Err(Failure::Text("Option '-moveToLocal' is not implemented yet.".to_owned()))
}

/// See the module.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    command("cat", "[-ignoreCrc] <src> ...", (1, MANY), &[flag("ignoreCrc")], read::cat, "Fetch all files that match the file pattern <src> and display their content on stdout."),
    command("checksum", "[-v] <src> ...", (1, MANY), &[flag("v")], read::checksum, "Dump checksum information for files that match the file pattern <src> to stdout. Note that this requires\na round-trip to a datanode storing each block of the file.\n\n  -v  displays blocks size for the file."),
    command("chgrp", "[-R] GROUP PATH...", (2, MANY), &[flag("R")], mode::chown, "This is equivalent to -chown ... :GROUP ..."),
    command("chmod", "[-R] <MODE[,MODE]... | OCTALMODE> PATH...", (2, MANY), &[flag("R")], mode::chmod, CHMOD_HELP),
    command("chown", "[-R] [OWNER][:[GROUP]] PATH...", (2, MANY), &[flag("R")], mode::chown, CHOWN_HELP),
    command("copyFromLocal", PUT_USAGE, (1, MANY), PUT_OPTIONS, put::put, "Identical to the -put command."),
    command("copyToLocal", GET_USAGE, (1, MANY), GET_OPTIONS, get::get, "Identical to the -get command."),
    command("count", "[-q] [-h] [-v] [-t [<storage type>]] [-u] [-x] [-e] [-s] [--json] <path> ...", (1, MANY), COUNT_OPTIONS, usage::count, COUNT_HELP),
    command("cp", "[-f] [-p | -p[topax]] [-d] [-t <thread count>] [-q <thread pool queue size>] <src> ... <dst>", (2, MANY), CP_OPTIONS, copy::cp, CP_HELP),
    command("df", "[-h] [<path> ...]", (0, MANY), &[flag("h")], usage::df, "Shows the capacity, free and used space of the filesystem.\n\n  -h  Formats the sizes of files in a human-readable fashion rather than a number of bytes."),
    command("du", "[-s] [-h] [-v] [-x] [--json] <path> ...", (0, MANY), DU_OPTIONS, usage::du, DU_HELP),
    deprecated(command("dus", "<path> ...", (0, MANY), &[flag("h"), flag("json")], usage::du, "(DEPRECATED) Same as 'du -s'")),
    command("expunge", "[-immediate] [-fs <path>]", (0, 0), &[flag("immediate")], trash::expunge, EXPUNGE_HELP),
    command("find", "<path> ... <expression> ...", (1, MANY), &[met("L"), met("H")], find::find, FIND_HELP),
    command("get", GET_USAGE, (1, MANY), GET_OPTIONS, get::get, GET_HELP),
    command("getmerge", "[-nl] [-skip-empty-file] <src> <localdst>", (2, MANY), &[flag("nl"), flag("skip-empty-file")], get::getmerge, GETMERGE_HELP),
    command("head", "<file>", (1, 1), &[], read::head, "Show the first 1KB of the file."),
    command("ls", "[-C] [-d] [-h] [-q] [-R] [-t] [-S] [-r] [-u] [-e] [--json] [<path> ...]", (0, MANY), LS_OPTIONS, list::ls, LS_HELP),
    deprecated(command("lsr", "<path> ...", (0, MANY), &[flag("h"), flag("json")], list::ls, "(DEPRECATED) Same as 'ls -R'")),
    command("mkdir", "[-p] <path> ...", (1, MANY), &[flag("p")], namespace::mkdir, MKDIR_HELP),
    command("moveFromLocal", PUT_USAGE, (1, MANY), PUT_OPTIONS, put::put, "Same as -put, except that the source is deleted after it's copied."),
    command("moveToLocal", "<src> <localdst>", (0, MANY), &[], move_to_local, "Not implemented yet"),
    command("mv", "<src> ... <dst>", (2, MANY), &[], namespace::mv, MV_HELP),
    command("put", PUT_USAGE, (1, MANY), PUT_OPTIONS, put::put, PUT_HELP),
    command("rm", "[-f] [-r|-R] [-skipTrash] [-safely] <src> ...", (0, MANY), RM_OPTIONS, namespace::rm, RM_HELP),
    command("rmdir", "[--ignore-fail-on-non-empty] <dir> ...", (1, MANY), &[flag("ignore-fail-on-non-empty")], namespace::rmdir, "Removes the directory entry specified by each directory argument, provided it is empty."),
    deprecated(command("rmr", "<src> ...", (1, MANY), &[flag("f"), flag("skipTrash")], namespace::rm, "(DEPRECATED) Same as '-rm -r'")),
    command("setrep", "[-R] [-w] <rep> <path> ...", (2, MANY), &[met("R"), flag("w")], namespace::setrep, SETREP_HELP),
    command("stat", "[format] [--json] <path> ...", (1, MANY), &[flag("json")], stat::stat, STAT_HELP),
    command("tail", "[-f] [-s <sleep interval>] <file>", (1, 1), &[flag("f"), value("s")], read::tail, TAIL_HELP),
    command("test", "-[defswrz] <path>", (1, 1), TEST_OPTIONS, stat::test, TEST_HELP),
    command("text", "[-ignoreCrc] <src> ...", (1, MANY), &[flag("ignoreCrc")], text::text, TEXT_HELP),
    command("touch", "[-a] [-m] [-t TIMESTAMP (yyyyMMdd:HHmmss) ] [-c] <path> ...", (1, MANY), TOUCH_OPTIONS, touch::touch, TOUCH_HELP),
    command("touchz", "<path> ...", (1, MANY), &[], touch::touchz, "Creates a file of zero length at <path> with current time as the timestamp of that <path>. An error is\nreturned if the file exists with non-zero length."),
];

/// Every command, by the file or subject that brings it. A new family of commands is one more line here.
static GROUPS: &[&[Command]] = &[COMMANDS, rewrite::COMMANDS, rights::COMMANDS, snapshot::COMMANDS];

/// All commands, by name.
pub(super) fn all() -> Vec<&'static Command> {
    let mut all: Vec<&Command> = GROUPS.iter().flat_map(|group| group.iter()).collect();
    all.sort_by_key(|command| command.name.to_ascii_lowercase());
    all
}

/// The command of this name.
pub(super) fn named(name: &str) -> Option<&'static Command> {
    GROUPS.iter().flat_map(|group| group.iter()).find(|command| command.name == name)
}

/// The command that a mistyped name is a slip or two away from; of short names one.
pub(super) fn nearest(typed: &str) -> Option<&'static str> {
    let slips_max = if typed.len() > SHORT_NAME_CHARS { 2 } else { 1 };
    let distance = |command: &&Command| strsim::damerau_levenshtein(command.name, typed);
    let nearest = all().into_iter().filter(|command| !command.deprecated).min_by_key(distance)?;
    (distance(&nearest) <= slips_max).then_some(nearest.name)
}

/// Names up to this length are too alike for two slips.
const SHORT_NAME_CHARS: usize = 4;

/// What Hadoop tells to use instead of a deprecated command.
pub(super) fn replacement(name: &str) -> Option<&'static str> {
    match name {
        "dus" => Some("du -s"),
        "lsr" => Some("ls -R"),
        "rmr" => Some("-rm -r"),
        _ => None,
    }
}
