//! Processes: signals to groups, death with the parent, limits, the usage of this one.

use std::time::Duration;
use std::{fs, io};

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions};

/// The result of [`raise_open_files`].
#[derive(Debug)]
pub struct OpenFiles {
    /// Descriptors that this process may have now.
    pub limit: u64,
    /// Whether that is as many as it could have.
    pub raised: io::Result<()>,
}

/// Raises this process's limit of descriptors to the system's maximum.
pub fn raise_open_files() -> OpenFiles {
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    match rustix::process::setrlimit(Resource::Nofile, raised) {
        Ok(()) => OpenFiles { limit: maximum.unwrap_or(u64::MAX), raised: Ok(()) },
        Err(error) => OpenFiles { limit: current.unwrap_or(u64::MAX), raised: Err(error.into()) },
    }
}

/// Ends every process of the group `pgid` at once (SIGKILL). A group that is gone already is fine.
///
/// # Errors
/// The system's error.
pub fn kill_group(pgid: u32) -> io::Result<()> {
    signal(pgid, |pid| rustix::process::kill_process_group(pid, Signal::KILL))
}

/// Asks one process to end (SIGTERM). A process that is gone already is fine.
///
/// # Errors
/// The system's error.
pub fn terminate(pid: u32) -> io::Result<()> {
    signal(pid, |pid| rustix::process::kill_process(pid, Signal::TERM))
}

/// Ends one process at once (SIGKILL). A process that is gone already is fine.
///
/// # Errors
/// The system's error.
pub fn kill(pid: u32) -> io::Result<()> {
    signal(pid, |pid| rustix::process::kill_process(pid, Signal::KILL))
}

/// Waits until a child has ended; true if it did so with exit code 0. It keeps its id until it is waited for in another way.
///
/// # Errors
/// The system's error.
pub fn wait_for_end(child: u32) -> io::Result<bool> {
    let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    loop {
        match rustix::process::waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        ) {
            Ok(status) => return Ok(status.and_then(|it| it.exit_status()) == Some(0)),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Stops one process where it is (SIGSTOP) until [`resume`]. A process that is gone already is fine.
///
/// # Errors
/// The system's error.
pub fn pause(pid: u32) -> io::Result<()> {
    signal(pid, |pid| rustix::process::kill_process(pid, Signal::STOP))
}

/// Continues a stopped process (SIGCONT). A process that is gone already is fine.
///
/// # Errors
/// The system's error.
pub fn resume(pid: u32) -> io::Result<()> {
    signal(pid, |pid| rustix::process::kill_process(pid, Signal::CONT))
}

/// True if a process with this id runs. One that has ended is not alive, though its id stays until its parent, perhaps this process, waits for it.
pub fn is_alive(pid: u32) -> bool {
    let exists = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok());
    // Without `/proc` it is taken for alive.
    exists && !fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| has_ended(&stat))
}

/// True for the state of a zombie, or of a process that goes just now.
fn has_ended(stat: &str) -> bool {
    // The name of a program may have brackets itself.
    let state = stat.rsplit_once(") ").and_then(|(_, fields)| fields.chars().next());
    matches!(state, Some('Z' | 'X'))
}

/// Has the kernel end this process when the thread that started it ends. Call first thing in a child.
///
/// # Errors
/// The system's error.
pub fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Units of processor time in `/proc/self/stat` per second: `USER_HZ`, which is part of the kernel's interface and 100 on every
/// architecture that this program is built for.
pub(crate) const TICKS_PER_SECOND: u64 = 100;

/// The resources that this process uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Resident memory.
    pub resident_bytes: u64,
    /// Most resident memory so far.
    pub resident_bytes_max: u64,
    /// Processor time, user and system.
    pub cpu_time: Duration,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub open_files: u64,
}

/// The resources that this process uses, from `/proc/self`.
///
/// # Errors
/// The system's error; `InvalidData` if `/proc` is not as in proc(5).
pub fn own_usage() -> io::Result<Usage> {
    let status = fs::read_to_string("/proc/self/status")?;
    let stat = fs::read_to_string("/proc/self/stat")?;
    let open_files = fs::read_dir("/proc/self/fd")?.count() as u64;
    parse_usage(&status, &stat, open_files).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The resources used so far by this process and by those of its children that it has waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// Processor time of all of them.
    pub cpu_time: Duration,
    /// Resident memory of this process, now.
    pub resident_bytes: u64,
    /// Its address space, now.
    pub virtual_bytes: u64,
}

/// The resources used so far by this process and its children, from `/proc/self`.
///
/// # Errors
/// The system's error; `InvalidData` if `/proc` is not as in proc(5).
pub fn own_work() -> io::Result<Work> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    parse_work(&stat).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse_work(stat: &str) -> Option<Work> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |field: usize| -> Option<u64> { fields.get(field - FIRST_FIELD)?.parse().ok() };
    let ticks = [14, 15, 16, 17].into_iter().try_fold(0u64, |sum, field| {
        // proc(5) has children's times as signed numbers; they are never below zero.
        sum.checked_add(number(field)?)
    })?;
    // More fields must follow: otherwise the last number may have been cut off.
    number(FIELD_BEHIND)?;
    Some(Work {
        cpu_time: Duration::from_millis(ticks.checked_mul(1000)? / TICKS_PER_SECOND),
        virtual_bytes: number(23)?,
        resident_bytes: number(24)?.checked_mul(rustix::param::page_size() as u64)?,
    })
}

/// The number in proc(5) of the first field after the name.
const FIRST_FIELD: usize = 3;
/// The field after the last that is read.
const FIELD_BEHIND: usize = 25;

fn parse_usage(status: &str, stat: &str, open_files: u64) -> Option<Usage> {
    let number = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_prefix(':')?.split_whitespace().next()?.parse().ok()
    };
    // The name of the program is in brackets and may contain anything, brackets too; utime and stime are the 14th and 15th field.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || -> Option<u64> { fields.next()?.parse().ok() };
    let ticks = ticks()?.checked_add(ticks()?)?;
    // More fields must follow: otherwise the last number may have been cut off.
    fields.next()?;
    Some(Usage {
        resident_bytes: number("VmRSS")?.checked_mul(1024)?,
        resident_bytes_max: number("VmHWM")?.checked_mul(1024)?,
        cpu_time: Duration::from_millis(ticks.checked_mul(1000)? / TICKS_PER_SECOND),
        threads: number("Threads")?,
        open_files,
    })
}

/// Limits of a process, and of each that it starts. `None` leaves one unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Private memory that it can write, bytes.
    pub data_bytes: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Seconds of processor time.
    pub cpu_seconds: Option<u64>,
    /// Length of a file that it writes, bytes.
    pub file_bytes: Option<u64>,
    /// Threads of its user on this machine, checked at a fork; the kernel exempts root.
    pub user_threads: Option<u64>,
}

/// Locked memory of a process: enough for programs that keep a secret out of the swap, and the usual default. It counts like any other memory.
const LOCKED_BYTES_MAX: u64 = 8 << 20;

impl Limits {
    /// The limits as the kernel takes them, with those of every limited process: it leaves no core files, has no message queues, which would outlive it, and
    /// takes no precedence over others. No limit is higher than this process's own.
    pub(crate) fn effective(&self) -> Vec<(Resource, Rlimit)> {
        let wanted = [
            (Resource::Data, self.data_bytes),
            (Resource::Nofile, self.open_files),
            (Resource::Cpu, self.cpu_seconds),
            (Resource::Fsize, self.file_bytes),
            (Resource::Nproc, self.user_threads),
            (Resource::Core, Some(0)),
            (Resource::Memlock, Some(LOCKED_BYTES_MAX)),
            (Resource::Msgqueue, Some(0)),
            (Resource::Nice, Some(0)),
            (Resource::Rtprio, Some(0)),
        ];
        let lowered = wanted.into_iter().filter_map(|(resource, value)| {
            let hard = rustix::process::getrlimit(resource).maximum;
            let value = Some(value.map(|value| hard.map_or(value, |hard| value.min(hard)))?);
            Some((resource, Rlimit { current: value, maximum: value }))
        });
        lowered.collect()
    }
}

/// Threads of all processes of this process's user.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn user_threads() -> io::Result<u64> {
    let user = rustix::process::getuid().as_raw().to_string();
    let mut sum: u64 = 0;
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let is_process = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
        // The process may have ended meanwhile.
        let Some(Ok(status)) = is_process.map(|_| fs::read_to_string(path.join("status"))) else {
            continue;
        };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()
        };
        if field("Uid:") == Some(user.as_str()) {
            let threads = field("Threads:").and_then(|count| count.parse().ok());
            sum = sum.saturating_add(threads.unwrap_or(1));
        }
    }
    Ok(sum)
}

fn signal(pid: u32, send: impl FnOnce(Pid) -> rustix::io::Result<()>) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    match send(pid) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_and_are_never_raised() {
        let limits = Limits { open_files: Some(20), user_threads: Some(999), ..Limits::default() };
        let mut command = std::process::Command::new("cat");
        command.arg("/proc/self/limits");
        crate::detach::detach(&mut command, Vec::new(), &limits, None).unwrap();
        let told = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let told_of_memory = LOCKED_BYTES_MAX.to_string();
        for (name, value) in [
            ("Max open files", "20"),
            ("Max processes", "999"),
            ("Max core file size", "0"),
            ("Max locked memory", &told_of_memory),
            ("Max msgqueue size", "0"),
            ("Max nice priority", "0"),
            ("Max realtime priority", "0"),
        ] {
            let line = told.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            let found: Vec<&str> = line.split_whitespace().take(2).collect();
            assert_eq!(found, [value, value], "{name}");
        }
    }

    #[test]
    fn a_child_that_has_ended_is_not_alive_before_anybody_waits_for_it() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(is_alive(child.id()));
        drop(child.stdin.take());
        assert!(wait_for_end(child.id()).unwrap());
        assert!(!is_alive(child.id()), "nobody has waited for it");
        assert!(child.wait().unwrap().success());
        assert!(!is_alive(child.id()));
        assert!(is_alive(std::process::id()));
        for (stat, ended) in [
            ("7 (a) Z b) S 1 7", false),
            ("7 (a) Z 1 7", true),
            ("7 (a) X 1 7", true),
            ("7 (Z", false),
        ] {
            assert_eq!(has_ended(stat), ended, "{stat}");
        }
    }

    #[test]
    fn work_counts_children_and_is_read_strictly() {
        let stat = "7 (a) b) S 1 7 7 0 -1 0 1 2 3 4 30 12 5 3 20 0 1 0 99 4096000 25 18446744073709551615 1 2";
        let work = parse_work(stat).unwrap();
        assert_eq!(work.cpu_time, Duration::from_millis(500));
        assert_eq!(work.virtual_bytes, 4_096_000);
        assert_eq!(work.resident_bytes, 25 * rustix::param::page_size() as u64);
        for cut in 0..stat.rfind("18446744").unwrap() {
            assert_eq!(parse_work(&stat[..cut]), None, "{}", &stat[..cut]);
        }
        let before = own_work().unwrap();
        let busy = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"])
            .status();
        assert!(busy.unwrap().success());
        assert!(own_work().unwrap().cpu_time > before.cpu_time);
    }

    #[test]
    fn usage_is_read_whatever_the_program_is_called() {
        let status = "Name:\tx\nVmHWM:\t  300 kB\nVmRSS:\t  200 kB\nThreads:\t7\n";
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 75 0 0 20 0 7 0 100";
        let usage = parse_usage(status, stat, 3).unwrap();
        assert_eq!(usage.resident_bytes, 200 << 10);
        assert_eq!(usage.resident_bytes_max, 300 << 10);
        assert_eq!(usage.cpu_time, Duration::from_millis(2250));
        assert_eq!((usage.threads, usage.open_files), (7, 3));
        let enough = stat.find(" 75 0").unwrap() + " 75 0".len();
        for cut in 0..stat.len() {
            let expected = (cut >= enough).then_some(usage);
            assert_eq!(parse_usage(status, &stat[..cut], 3), expected, "{}", &stat[..cut]);
        }
        assert_eq!(parse_usage("", stat, 3), None);
        assert!(user_threads().unwrap() >= own_usage().unwrap().threads);
        let own = own_usage().unwrap();
        assert!(own.resident_bytes > 0 && own.resident_bytes_max >= own.resident_bytes / 2);
        assert!(own.threads > 0 && own.open_files > 2);
    }
}
