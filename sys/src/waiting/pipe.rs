//! Our ends of the pipes of a process that may leave others behind which hold them open.
//!
//! Invariants: nobody waits at an end once the process is over ([`Over`]); what was in its pipe then is still read, and what others write later is not.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ioctl_fionread};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::wake::Wake;

/// Says to all ends of the pipes of a process that it is over.
#[derive(Debug)]
pub struct Over {
    wake: Wake,
    is_said: AtomicBool,
    /// Whoever waits at an end waits for this, too.
    child: Option<Child>,
}

/// A process whose failure says it. Its id is its own until it is waited for in another way.
#[derive(Debug)]
struct Child {
    id: u32,
    process: OwnedFd,
    /// It has ended, and that was judged.
    is_judged: AtomicBool,
}

impl Over {
    /// Not said yet.
    ///
    /// # Errors
    /// The system's error: no more descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Over { wake: Wake::new()?, is_said: AtomicBool::new(false), child: None })
    }

    /// Is said, too, when a child ends and not with exit code 0. On kernels that cannot tell, it is not.
    ///
    /// # Errors
    /// As [`Over::new`].
    pub fn if_fails(child: u32) -> io::Result<Self> {
        let id = i32::try_from(child).ok().and_then(Pid::from_raw);
        let process = id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
        let child =
            process.map(|process| Child { id: child, process, is_judged: AtomicBool::new(false) });
        Ok(Over { child, ..Over::new()? })
    }

    /// Nobody waits at the ends any more.
    pub fn say(&self) {
        self.is_said.store(true, Ordering::Release);
        self.wake.notify();
    }

    fn is_said(&self) -> bool {
        self.is_said.load(Ordering::Acquire)
    }

    /// The process, until it has ended.
    fn running(&self) -> Option<&Child> {
        self.child.as_ref().filter(|child| !child.is_judged.load(Ordering::Acquire))
    }

    /// Judges the end of the process.
    fn judge(&self, child: &Child) {
        if !crate::process::wait_for_end(child.id).unwrap_or(true) {
            self.say();
        }
        child.is_judged.store(true, Ordering::Release);
    }
}

/// An end of a pipe.
#[derive(Debug)]
pub struct PipeEnd<'a, P> {
    pipe: P,
    over: &'a Over,
    /// Bytes that were in the pipe when it was over, and are to be read; `None` before.
    left: Option<u64>,
}

impl<'a, P: AsFd> PipeEnd<'a, P> {
    /// Of a pipe whose other end knows nothing of this.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(pipe: P, over: &'a Over) -> io::Result<Self> {
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok(PipeEnd { pipe, over, left: None })
    }

    /// Waits until the pipe is ready, or it is over.
    fn wait(&self, ready: PollFlags) -> io::Result<()> {
        let (wake, running) = (self.over.wake.as_fd(), self.over.running());
        let process = running.map_or(wake, |child| child.process.as_fd());
        let mut all = [
            PollFd::new(&self.pipe, ready),
            PollFd::from_borrowed_fd(wake, PollFlags::IN),
            PollFd::from_borrowed_fd(process, PollFlags::IN),
        ];
        match poll(&mut all, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if let (Some(child), false) = (running, all[2].revents().is_empty()) {
            self.over.judge(child);
        }
        Ok(())
    }

    /// Bytes that may still be read.
    fn left(&mut self) -> io::Result<u64> {
        Ok(match self.left {
            Some(left) => left,
            None if self.over.is_said() => *self.left.insert(ioctl_fionread(&self.pipe)?),
            None => u64::MAX,
        })
    }
}

impl<P: AsFd + Read> Read for PipeEnd<'_, P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.left()?;
            let count = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if count == 0 {
                return Ok(0);
            }
            match self.pipe.read(&mut buffer[..count]) {
                Ok(count) => {
                    self.left.iter_mut().for_each(|left| *left -= count as u64);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            self.wait(PollFlags::IN)?;
        }
    }
}

impl<P: AsFd + Write> Write for PipeEnd<'_, P> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            if self.over.is_said() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            match self.pipe.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return written,
            }
            self.wait(PollFlags::OUT)?;
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pipe.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn nobody_waits_at_an_end_once_it_is_over_and_what_is_in_the_pipe_is_read() {
        let over = Over::new().unwrap();
        let (reading, mut writing) = io::pipe().unwrap();
        let mut reading = PipeEnd::new(reading, &over).unwrap();
        let (held, full) = io::pipe().unwrap();
        let mut full = PipeEnd::new(full, &over).unwrap();
        writing.write_all(b"first").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(reading.read(&mut buffer).unwrap(), 5);
        let (read, written) = thread::scope(|scope| {
            let read = scope.spawn(|| reading.read(&mut [0; 16]));
            let written = scope.spawn(|| full.write_all(&vec![0; 4 << 20]));
            over.say();
            (read.join().unwrap(), written.join().unwrap())
        });
        assert_eq!((read.unwrap(), written.unwrap_err().kind()), (0, io::ErrorKind::BrokenPipe));
        drop(held);

        let (late, mut writing) = io::pipe().unwrap();
        let mut late = PipeEnd::new(late, &over).unwrap();
        writing.write_all(b"before").unwrap();
        assert_eq!(late.read(&mut buffer[..2]).unwrap(), 2);
        writing.write_all(b"and after").unwrap();
        let mut rest = Vec::new();
        late.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"fore");
    }

    #[test]
    fn a_child_that_fails_is_over_and_one_that_succeeds_is_read_to_the_end() {
        for (script, expected) in [
            ("sleep 60 & echo $!; exit 3", true),
            ("exec 3<&0; (read line; echo $line) <&3 & echo $!; exit 0", false),
        ] {
            let mut child = std::process::Command::new("sh")
                .args(["-c", script])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let over = Over::if_fails(child.id()).unwrap();
            let mut output = PipeEnd::new(child.stdout.take().unwrap(), &over).unwrap();
            let mut input = child.stdin.take().unwrap();
            crate::process::wait_for_end(child.id()).unwrap();
            if !expected {
                input.write_all(b"late\n").unwrap();
            }
            let mut said = String::new();
            output.read_to_string(&mut said).unwrap();
            let mut lines = said.lines();
            let left: u32 = lines.next().unwrap().parse().unwrap();
            assert_eq!(lines.next(), (!expected).then_some("late"));
            assert_eq!(over.is_said(), expected, "{script}");
            let _ = crate::process::kill(left);
            child.wait().unwrap();
        }
    }
}
