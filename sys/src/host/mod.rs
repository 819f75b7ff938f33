//! Facts about the machine and the user.

pub mod users;

use std::fs;

/// Identifies this boot of this machine's kernel. It is equal for two processes exactly if they can share files and sockets (apart from namespaces, so the
/// sharing must still be tried). Empty if the system does not provide it.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// The machine's network name, or `localhost`.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// The version of the kernel.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Name of the user this process runs as: `HADOOP_USER_NAME` if set (as Hadoop's clients do), else from the password file,
/// else `$USER`, else the number.
pub fn user_name() -> String {
    let uid = rustix::process::geteuid().as_raw();
    let from_variable = |name| std::env::var(name).ok().filter(|name: &String| !name.is_empty());
    from_variable("HADOOP_USER_NAME")
        .or_else(|| users::known_user_name(uid))
        .or_else(|| from_variable("USER"))
        .unwrap_or_else(|| uid.to_string())
}

/// Numeric id of the user this process runs as.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Raises the limit of open files to the hard limit and returns it. Daemons hold many sockets and files.
pub fn raise_open_files_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}
