//! Commands that change names and attributes, but no contents: directories, moves, deletes and the trash, times, replicas, rights, snapshots.

mod mode;
mod names;
mod rights;
mod snapshot;
mod touch;
mod trash;

use super::args::{Opt, flag, met, value};
use super::command::{Command, MANY, command, deprecated};

const RM_OPTIONS: &[Opt] = &[flag("f"), flag("r"), flag("R"), flag("skipTrash"), flag("safely")];
const RM_HELP: &str = "Delete all files that match the specified file pattern. Equivalent to the Unix command \"rm <src>\".
Where the trash is on, what is deleted is moved to /user/<you>/.Trash/Current.

  -f          If the file does not exist, do not display a diagnostic message or modify the exit status.
  -[rR]       Recursively deletes directories.
  -skipTrash  option bypasses trash, if enabled, and immediately deletes <src>.
  -safely     option requires safety confirmation before deleting a directory with more than 100 files.";
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
const MV_HELP: &str = "Move files that match the specified file pattern <src> to a destination <dst>. When moving multiple
files, the destination must be a directory.";
const MKDIR_HELP: &str = "Create a directory in specified location.

  -p  Do not fail if the directory already exists.";
const EXPUNGE_HELP: &str = "Delete files from the trash that are older than the retention threshold, and make a checkpoint of what
was deleted since the last one.

  -immediate  Deletes all files in the trash immediately, ignoring the retention threshold.";
const TOUCH_HELP: &str = "Updates the access and modification times of the file specified by the <path> to the current time. If the
file does not exist, then a zero length file is created at <path> with current time as the timestamp.

  -a                 Change only the access time.
  -m                 Change only the modification time.
  -t TIMESTAMP       Use specified timestamp instead of current time, format yyyyMMdd:HHmmss, local time.
  -c                 Do not create any files.";
const TOUCH_OPTIONS: &[Opt] = &[flag("a"), flag("m"), value("t"), flag("c")];

/// The commands of this folder.
pub(super) const COMMANDS: &[&[Command]] = &[OWN, rights::COMMANDS, snapshot::COMMANDS];

#[rustfmt::skip]
const OWN: &[Command] = &[
    command("chgrp", "[-R] GROUP PATH...", (2, MANY), &[flag("R")], mode::chown, "This is equivalent to -chown ... :GROUP ..."),
    command("chmod", "[-R] <MODE[,MODE]... | OCTALMODE> PATH...", (2, MANY), &[flag("R")], mode::chmod, CHMOD_HELP),
    command("chown", "[-R] [OWNER][:[GROUP]] PATH...", (2, MANY), &[flag("R")], mode::chown, CHOWN_HELP),
    command("expunge", "[-immediate] [-fs <path>]", (0, 0), &[flag("immediate")], trash::expunge, EXPUNGE_HELP),
    command("mkdir", "[-p] <path> ...", (1, MANY), &[flag("p")], names::mkdir, MKDIR_HELP),
    command("mv", "<src> ... <dst>", (2, MANY), &[], names::mv, MV_HELP),
    command("rm", "[-f] [-r|-R] [-skipTrash] [-safely] <src> ...", (1, MANY), RM_OPTIONS, names::rm, RM_HELP),
    command("rmdir", "[--ignore-fail-on-non-empty] <dir> ...", (1, MANY), &[flag("ignore-fail-on-non-empty")], names::rmdir, "Removes the directory entry specified by each directory argument, provided it is empty."),
    deprecated(command("rmr", "<src> ...", (1, MANY), &[flag("f"), flag("skipTrash")], names::rm, "(DEPRECATED) Same as '-rm -r'")),
    command("setrep", "[-R] [-w] <rep> <path> ...", (2, MANY), &[met("R"), flag("w")], names::setrep, SETREP_HELP),
    command("touch", "[-a] [-m] [-t TIMESTAMP (yyyyMMdd:HHmmss) ] [-c] <path> ...", (1, MANY), TOUCH_OPTIONS, touch::touch, TOUCH_HELP),
    command("touchz", "<path> ...", (1, MANY), &[], touch::touchz, "Creates a file of zero length at <path> with current time as the timestamp of that <path>. An error is\nreturned if the file exists with non-zero length."),
];
