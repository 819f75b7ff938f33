//! Small file systems for tests of full disks: a cluster in a mount namespace of its own, with a tmpfs where a daemon's data is.
//! Nothing of it is seen outside, and it is gone with the cluster.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use needs::{Need, lacks};

use super::Options;

/// Unit in which ballast is written.
const BALLAST_BYTES: usize = 64 << 10;

/// True if tests may mount. Where not, says so.
pub(crate) fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    let possible = *POSSIBLE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let mut probe = in_namespace("mount -t tmpfs -o size=1m none \"$0\"");
        let status = probe.arg(directory.path()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    });
    if !possible {
        lacks(Need::Mounts, "`unshare -rm` cannot mount a tmpfs");
    }
    possible
}

/// `binary`, with a tmpfs of so many bytes in the place of each directory that [`Options`] name, and without the rights that it
/// is to lack.
pub(crate) fn command(binary: &Path, directory: &Path, options: &Options) -> Command {
    if options.mounts.is_empty() && !options.unprivileged {
        return Command::new(binary);
    }
    let mut script = String::new();
    for (name, bytes) in &options.mounts {
        let place = directory.join(name);
        fs::create_dir_all(&place).unwrap();
        script.push_str(&format!(
            "mount -t tmpfs -o size={bytes},nr_inodes={},mode=700 none '{}' && ",
            options.mount_inodes,
            place.display()
        ));
    }
    script.push_str("exec ");
    if options.unprivileged {
        script.push_str("setpriv --bounding-set=-dac_override,-dac_read_search -- ");
    }
    script.push_str("\"$0\" \"$@\"");
    let mut command = in_namespace(&script);
    command.arg(binary);
    command
}

/// Runs a command as root of the namespace that the process `pid` is in.
pub(crate) fn run_beside(pid: u32, arguments: &[&str]) {
    let mut command = Command::new("nsenter");
    command.args(["--user", "--mount", "--preserve-credentials", "--target", &pid.to_string()]);
    let outcome = super::Outcome::of({
        command.args(arguments);
        command
    });
    assert_eq!(outcome.code, 0, "{arguments:?}: {}", outcome.stderr);
}

pub(crate) fn in_namespace(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script]);
    command
}

/// Bytes that fill a disk until they are dropped.
pub(crate) struct Ballast(PathBuf);

impl Ballast {
    /// Leaves `left` bytes free in the file system of `directory`.
    pub(crate) fn fill(directory: &Path, left: u64) -> Ballast {
        let path = directory.join("ballast");
        let mut file = File::create(&path).unwrap();
        let chunk = vec![0x5a; BALLAST_BYTES];
        while sys::fs::space(directory).unwrap().available > left {
            match file.write_all(&chunk) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
        Ballast(path)
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
