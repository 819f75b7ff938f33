//! Facts about the machine and the user.

use std::path::Path;
use std::{fs, io};

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
        .or_else(|| user_in_password_file(Path::new("/etc/passwd"), uid))
        .or_else(|| from_variable("USER"))
        .unwrap_or_else(|| uid.to_string())
}

fn user_in_password_file(path: &Path, uid: u32) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// Groups of a user from the files `/etc/passwd` (the first group) and `/etc/group`; none for a user that is in neither.
///
/// # Errors
/// If `/etc/group` cannot be read.
pub fn groups_of(user: &str) -> io::Result<Vec<String>> {
    groups_in_files(Path::new("/etc/passwd"), Path::new("/etc/group"), user)
}

fn groups_in_files(passwords: &Path, groups: &Path, user: &str) -> io::Result<Vec<String>> {
    let first = fs::read_to_string(passwords).ok().and_then(|text| {
        text.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next()? == user).then(|| fields.nth(2).map(str::to_owned))?
        })
    });
    let mut names = Vec::new();
    for line in fs::read_to_string(groups)?.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, number, members] = fields[..] else { continue };
        if first.as_deref() == Some(number)
            || (!user.is_empty() && members.split(',').any(|member| member == user))
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_password_file_names_users() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:1000::/:/bin/sh")
            .unwrap();
        assert_eq!(user_in_password_file(file.path(), 1000).as_deref(), Some("ann"));
        assert_eq!(user_in_password_file(file.path(), 7), None);
    }

    #[test]
    fn the_group_file_names_groups() {
        let mut passwords = tempfile::NamedTempFile::new().unwrap();
        writeln!(passwords, "ann:x:1000:50::/:/bin/sh\nbob:x:1001:51").unwrap();
        let mut groups = tempfile::NamedTempFile::new().unwrap();
        writeln!(groups, "staff:x:50:\nbroken:x\netl:x:60:bob,ann\nops:x:61:bobby,bob\nnone:x:62:")
            .unwrap();
        for (user, expected) in [
            ("ann", &["staff", "etl"][..]),
            ("bob", &["etl", "ops"]),
            ("bobby", &["ops"]),
            ("", &[]),
            ("eve", &[]),
        ] {
            let found = groups_in_files(passwords.path(), groups.path(), user).unwrap();
            assert_eq!(found, expected, "{user}");
        }
        assert!(groups_in_files(passwords.path(), Path::new("/nowhere"), "ann").is_err());
    }
}
