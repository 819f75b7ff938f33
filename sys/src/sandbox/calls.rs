//! The system calls refused inside the sandbox (seccomp): calls that no ordinary program of a task makes, and calls that could reach, change or hide something
//! outside the task.
//!
//! Invariants: arguments are compared in the 32 bits that the kernel reads, so other bits set in them change nothing; calls in other numberings of the same
//! processor (x32, 32 bit) are refused too.

use std::io;
use std::sync::OnceLock;

use seccompiler::{BpfProgram, TargetArch, apply_filter, compile_from_json, sock_filter};

/// Calls that fail with EPERM. They concern other processes, mounts, namespaces, keys, programs in the kernel, the machine as a whole, and files by handle;
/// memory that outlives its task or that checks do not find; events of which a user has few.
const REFUSED: &[&str] = &[
    "acct",
    "add_key",
    "bpf",
    "chroot",
    "clock_adjtime",
    "clock_settime",
    "delete_module",
    "fanotify_init",
    "fanotify_mark",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "inotify_init1",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "kcmp",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "memfd_secret",
    "mount",
    "mount_setattr",
    "move_mount",
    "mq_open",
    "msgget",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "process_madvise",
    "process_mrelease",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "semget",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "shmget",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "unshare",
    "userfaultfd",
    "vhangup",
];
/// More of these calls, where the processor's numbering has them.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[&str] =
    &["inotify_init", "ioperm", "iopl", "kexec_file_load", "modify_ldt", "uselib"];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[&str] = &["kexec_file_load"];

/// Flags of `clone` that make namespaces: mount, cgroup, uts, ipc, user, pid, net.
const NAMESPACES: [u32; 7] =
    [0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];
/// Requests of `ioctl` that act on somebody's terminal: typing into it (`TIOCSTI`), its selection and screen (`TIOCLINUX`), taking over
/// the console (`TIOCCONS`), other line disciplines (`TIOCSETD`).
const TERMINAL_REQUESTS: [u32; 4] = [0x5412, 0x541c, 0x541d, 0x5423];
/// Families of sockets that are allowed: IPv4, IPv6, and questions about routes (`NETLINK_ROUTE`), which name resolution asks. Unix sockets are not among them,
/// since no other wall can refuse the machine's sockets that have a path. Nor are the sockets of a hypervisor, of the machine's buses and of its ciphers.
const FAMILY_IPV4: u32 = 2;
const FAMILY_IPV6: u32 = 10;
const FAMILY_NETLINK: u32 = 16;
const NETLINK_ROUTE: u32 = 0;
/// The bits of a socket's type, and the types that can send to an address although the socket was made as a pair.
const SOCKET_TYPES: u32 = 0xf;
const SOCKET_DATAGRAM: u32 = 2;
const SOCKET_RAW: u32 = 3;
/// `prctl` that hides a process from those who check what it uses.
const SET_DUMPABLE: u32 = 4;
/// `setpriority` for all processes of a group, and for all of a user.
const PRIORITIES_OF_OTHERS: [u32; 2] = [1, 2];

/// `EPERM`, and `ENOSYS`: a program that finds `clone3` unknown falls back to `clone`, whose flags a filter can see.
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// The filters.
pub(super) fn programs() -> io::Result<&'static [BpfProgram]> {
    static PROGRAMS: OnceLock<Result<Vec<BpfProgram>, String>> = OnceLock::new();
    let programs = PROGRAMS.get_or_init(compile).as_ref();
    programs.map(Vec::as_slice).map_err(|error| io::Error::other(error.as_str()))
}

/// Refuses the calls for this thread and all its descendants. Allocates only if the kernel has no such filters.
pub(super) fn refuse(programs: &[BpfProgram]) -> io::Result<()> {
    programs.iter().try_for_each(|program| apply_filter(program).map_err(io::Error::other))
}

fn compile() -> Result<Vec<BpfProgram>, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let filters = compile_from_json(filters().as_bytes(), arch).map_err(|e| e.to_string())?;
    Ok(filters.into_values().chain([other_numberings()]).collect())
}

/// x32: its calls have the architecture of the 64 bit ones, and this bit in their number. No other numbering uses it.
fn other_numberings() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_ANY: u16 = 0x45;
    const RETURN: u16 = 0x06;
    const RETURN_ERROR: u32 = 0x5_0000;
    const RETURN_ALLOW: u32 = 0x7fff_0000;
    let step = |code, jt, k| sock_filter { code, jt, jf: 0, k };
    vec![
        step(LOAD_NUMBER, 0, 0),
        step(JUMP_IF_ANY, 1, X32),
        step(RETURN, 0, RETURN_ALLOW),
        step(RETURN, 0, RETURN_ERROR | ENOSYS),
    ]
}

/// The filters in seccompiler's JSON.
fn filters() -> String {
    let mut refused: Vec<String> = REFUSED
        .iter()
        .chain(REFUSED_HERE)
        .map(|name| format!(r#"{{"syscall":"{name}"}}"#))
        .collect();
    refused.extend(NAMESPACES.map(|flag| rule("clone", &[masked(0, flag, flag)])));
    refused.extend(TERMINAL_REQUESTS.map(|request| rule("ioctl", &[compared(1, "eq", request)])));
    let families = [FAMILY_IPV4, FAMILY_IPV6, FAMILY_NETLINK];
    refused.push(rule("socket", &families.map(|family| compared(0, "ne", family))));
    refused.push(rule(
        "socket",
        &[compared(0, "eq", FAMILY_NETLINK), compared(2, "ne", NETLINK_ROUTE)],
    ));
    refused.extend(
        [SOCKET_DATAGRAM, SOCKET_RAW]
            .map(|kind| rule("socketpair", &[masked(1, SOCKET_TYPES, kind)])),
    );
    refused.push(rule("prctl", &[compared(0, "eq", SET_DUMPABLE)]));
    // Limits of another process of the same user.
    refused.push(rule("prlimit64", &[compared(0, "ne", 0)]));
    refused
        .extend(PRIORITIES_OF_OTHERS.map(|which| rule("setpriority", &[compared(0, "eq", which)])));
    let filter = |action: u32, calls: &str| {
        format!(
            r#"{{"mismatch_action":"allow","match_action":{{"errno":{action}}},"filter":[{calls}]}}"#
        )
    };
    let unknown = filter(ENOSYS, r#"{"syscall":"clone3"}"#);
    format!(r#"{{"refused":{},"unknown":{unknown}}}"#, filter(EPERM, &refused.join(",")))
}

fn rule(call: &str, conditions: &[String]) -> String {
    format!(r#"{{"syscall":"{call}","args":[{}]}}"#, conditions.join(","))
}

fn compared(index: u32, how: &str, value: u32) -> String {
    format!(r#"{{"index":{index},"type":"dword","op":"{how}","val":{value}}}"#)
}

fn masked(index: u32, mask: u32, value: u32) -> String {
    format!(r#"{{"index":{index},"type":"dword","op":{{"masked_eq":{mask}}},"val":{value}}}"#)
}
