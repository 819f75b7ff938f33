//! Tells the service manager (systemd) that this daemon is ready, what it is doing, and that its main loop turns: the protocol of `sd_notify`.
//!
//! ```text
//! READY=1      once it serves                  STOPPING=1    once it ends
//! STATUS=text  whenever that changes           WATCHDOG=1    from the main loop, at least four times within WATCHDOG_USEC
//! ```
//!
//! Like the log, it belongs to the process. Without a call of [`attach`], or without a service manager, nothing is sent.
//!
//! Invariants: nothing here has a timer or a thread of its own, so a daemon whose main loop hangs is silent; a call blocks for at most `SEND_MAX`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Environment variable: the socket of the service manager.
pub const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";
/// Environment variable: microseconds after which it ends a daemon that sends no sign of life.
pub const WATCHDOG_VARIABLE: &str = "WATCHDOG_USEC";
/// Environment variable: the process that has to send them.
pub const WATCHDOG_PROCESS_VARIABLE: &str = "WATCHDOG_PID";
/// Longest wait for the socket, which has room except if the service manager hangs: the main loop must not hang with it.
const SEND_MAX: Duration = Duration::from_millis(100);
/// Signs of life within the time of the watchdog: one that is lost or late is no reason to end a daemon.
const SIGNS_PER_TIMEOUT: u32 = 4;

static ATTACHED: OnceLock<Supervisor> = OnceLock::new();

/// Finds the service manager that started this process, if one did. Called once, by a program that is one daemon.
pub fn attach() {
    let variable = |name: &str| std::env::var_os(name);
    match Supervisor::find(variable, std::process::id()) {
        Ok(Some(supervisor)) => drop(ATTACHED.set(supervisor)),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "cannot talk to the service manager"),
    }
}

/// The daemon serves. Only the first call says so.
pub fn ready() {
    if let Some(supervisor) = ATTACHED.get() {
        supervisor.ready();
    }
}

/// What the daemon does now, in one line.
pub fn status(text: &str) {
    if let Some(supervisor) = ATTACHED.get() {
        supervisor.status(text);
    }
}

/// The main loop turns. Called from that loop alone, as often as it turns: at least once in a few seconds, also when there is nothing to do.
pub fn alive() {
    if let Some(supervisor) = ATTACHED.get() {
        supervisor.alive(Instant::now());
    }
}

/// The daemon ends. Only the first call says so.
pub fn stopping() {
    if let Some(supervisor) = ATTACHED.get()
        && !supervisor.is_stopping.swap(true, Ordering::Relaxed)
    {
        supervisor.send("STOPPING=1\nSTATUS=stops");
    }
}

/// The service manager that started this process.
#[derive(Debug)]
struct Supervisor {
    socket: UnixDatagram,
    address: SocketAddr,
    /// `None` if it expects no signs of life from this process.
    signs: Option<Signs>,
    is_ready: AtomicBool,
    is_stopping: AtomicBool,
    has_failed: AtomicBool,
}

#[derive(Debug)]
struct Signs {
    interval: Duration,
    last: Mutex<Option<Instant>>,
}

impl Supervisor {
    /// Reads the variables of its protocol.
    fn find(
        variable: impl Fn(&str) -> Option<OsString>,
        process: u32,
    ) -> io::Result<Option<Supervisor>> {
        let Some(name) = variable(SOCKET_VARIABLE).filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let number = |name| variable(name).and_then(|text| text.to_str()?.parse::<u64>().ok());
        let is_other = number(WATCHDOG_PROCESS_VARIABLE).is_some_and(|id| id != u64::from(process));
        let timeout = number(WATCHDOG_VARIABLE).filter(|timeout| *timeout > 0 && !is_other);
        let signs = timeout.map(|timeout| Signs {
            interval: Duration::from_micros(timeout) / SIGNS_PER_TIMEOUT,
            last: Mutex::new(None),
        });
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(SEND_MAX))?;
        Ok(Some(Supervisor {
            socket,
            address: address(&name)?,
            signs,
            is_ready: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        }))
    }

    fn ready(&self) {
        if !self.is_ready.swap(true, Ordering::Relaxed) {
            self.send("READY=1");
        }
    }

    /// Fields of a message are lines.
    fn status(&self, text: &str) {
        self.send(&format!("STATUS={}", text.replace(['\n', '\r'], " ")));
    }

    /// Sends a sign of life if the last is long enough ago.
    fn alive(&self, now: Instant) {
        let Some(signs) = &self.signs else { return };
        let mut last = signs.last.lock();
        if last.is_some_and(|last| now.duration_since(last) < signs.interval) {
            return;
        }
        *last = Some(now);
        drop(last);
        self.send("WATCHDOG=1");
    }

    /// A failure is logged once: the service manager notices by itself what it misses.
    fn send(&self, text: &str) {
        let sent = self.socket.send_to_addr(text.as_bytes(), &self.address);
        if let Err(error) = sent
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, text, "the service manager does not hear this daemon");
        }
    }
}

/// A path, or an abstract name behind `@`.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => {
            let text = format!("{SOCKET_VARIABLE} {name:?} is neither a path nor an abstract name");
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service manager that started process 7, with these variables besides its socket.
    fn started<'a>(
        socket: &'a str,
        variables: &'a [(&str, &str)],
    ) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| match name {
            SOCKET_VARIABLE => Some(socket.into()),
            _ => variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()),
        }
    }

    fn heard(manager: &UnixDatagram) -> String {
        manager.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut buffer = [0; 512];
        let count = manager.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    }

    fn is_silent(manager: &UnixDatagram) -> bool {
        manager.set_nonblocking(true).unwrap();
        let silent = manager.recv(&mut [0; 512]).is_err();
        manager.set_nonblocking(false).unwrap();
        silent
    }

    #[test]
    fn a_service_manager_hears_what_happens_by_either_kind_of_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let hidden = format!("hanno-supervisor-test-{}", std::process::id());
        let hidden_address = SocketAddr::from_abstract_name(&hidden).unwrap();
        for (name, manager) in [
            (path.to_str().unwrap().to_owned(), UnixDatagram::bind(&path).unwrap()),
            (format!("@{hidden}"), UnixDatagram::bind_addr(&hidden_address).unwrap()),
        ] {
            let found = Supervisor::find(started(&name, &[]), 7).unwrap().unwrap();
            found.status("serves\nREADY=1");
            assert_eq!(heard(&manager), "STATUS=serves READY=1");
            found.ready();
            found.ready();
            assert_eq!(heard(&manager), "READY=1");
            found.alive(Instant::now());
            assert!(is_silent(&manager), "nobody asked for signs of life");
        }
    }

    #[test]
    fn signs_of_life_are_sent_four_times_within_the_time_and_by_the_process_that_is_asked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let name = path.to_str().unwrap();
        let second = (WATCHDOG_VARIABLE, "1000000");
        let found = Supervisor::find(started(name, &[second, (WATCHDOG_PROCESS_VARIABLE, "7")]), 7);
        let found = found.unwrap().unwrap();
        let start = Instant::now();
        for ms in [0, 100, 249, 250, 400, 499, 600] {
            found.alive(start + Duration::from_millis(ms));
        }
        for _ in 0..3 {
            assert_eq!(heard(&manager), "WATCHDOG=1");
        }
        assert!(is_silent(&manager));
        for variables in [
            &[second, (WATCHDOG_PROCESS_VARIABLE, "8")][..],
            &[(WATCHDOG_VARIABLE, "0")],
            &[(WATCHDOG_VARIABLE, "soon")],
        ] {
            let found = Supervisor::find(started(name, variables), 7).unwrap().unwrap();
            assert!(found.signs.is_none(), "{variables:?}");
        }
    }

    #[test]
    fn what_is_no_socket_is_refused_and_nobody_there_is_no_failure() {
        assert!(Supervisor::find(|_| None, 7).unwrap().is_none());
        assert!(Supervisor::find(started("", &[]), 7).unwrap().is_none());
        for name in ["relative", "vsock:2:1234"] {
            assert!(Supervisor::find(started(name, &[]), 7).is_err(), "{name}");
        }
        let gone = Supervisor::find(started("/nowhere/notify", &[]), 7).unwrap().unwrap();
        gone.ready();
        assert!(gone.has_failed.load(Ordering::Relaxed));
    }
}
