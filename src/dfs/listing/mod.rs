//! Commands that display files and directories and change nothing: names, states, sizes.

mod find;
mod list;
mod stat;
mod usage;

use super::args::{Opt, flag, met, value_unless_last};
use super::command::{Command, MANY, command, deprecated};

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
const TEST_OPTIONS: &[Opt] =
    &[flag("d"), flag("e"), flag("f"), flag("s"), flag("w"), flag("r"), flag("z")];
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
const STAT_HELP: &str = "Print statistics about the file/directory at <path> in the specified format.
Format accepts permissions in octal (%a) and symbolic (%A), filesize in bytes (%b), type (%F), group name
of owner (%g), name (%n), block size (%o), replication (%r), user name of owner (%u), access date (%x, %X),
modification date (%y, %Y).
%x and %y show UTC date as \"yyyy-MM-dd HH:mm:ss\" and %X and %Y show milliseconds since January 1, 1970 UTC.
If the format is not specified, %y is used by default.";
const TEST_HELP: &str = "Answer various questions about <path>, with result via exit status.

  -d  return 0 if <path> is a directory.
  -e  return 0 if <path> exists.
  -f  return 0 if <path> is a file.
  -s  return 0 if file <path> is greater than zero bytes in size.
  -w  return 0 if file <path> exists and write permission is granted.
  -r  return 0 if file <path> exists and read permission is granted.
  -z  return 0 if file <path> is zero bytes in size, else return 1.";
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

/// The commands of this folder.
pub(super) const COMMANDS: &[&[Command]] = &[OWN];

#[rustfmt::skip]
const OWN: &[Command] = &[
    command("count", "[-q] [-h] [-v] [-t [<storage type>]] [-u] [-x] [-e] [-s] [--json] <path> ...", (1, MANY), COUNT_OPTIONS, usage::count, COUNT_HELP),
    command("df", "[-h] [<path> ...]", (0, MANY), &[flag("h")], usage::df, "Shows the capacity, free and used space of the filesystem.\n\n  -h  Formats the sizes of files in a human-readable fashion rather than a number of bytes."),
    command("du", "[-s] [-h] [-v] [-x] [--json] <path> ...", (0, MANY), DU_OPTIONS, usage::du, DU_HELP),
    deprecated(command("dus", "<path> ...", (0, MANY), &[flag("h"), flag("json")], usage::du, "(DEPRECATED) Same as 'du -s'")),
    command("find", "<path> ... <expression> ...", (1, MANY), &[met("L"), met("H")], find::find, FIND_HELP),
    command("ls", "[-C] [-d] [-h] [-q] [-R] [-t] [-S] [-r] [-u] [-e] [--json] [<path> ...]", (0, MANY), LS_OPTIONS, list::ls, LS_HELP),
    deprecated(command("lsr", "<path> ...", (0, MANY), &[flag("h"), flag("json")], list::ls, "(DEPRECATED) Same as 'ls -R'")),
    command("stat", "[format] [--json] <path> ...", (1, MANY), &[flag("json")], stat::stat, STAT_HELP),
    command("test", "-[defswrz] <path>", (1, 1), TEST_OPTIONS, stat::test, TEST_HELP),
];
