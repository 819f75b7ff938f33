//! The thread that writes one replica's large packets, so its receiver can take the next one from the network meanwhile.
//!
//! ```text
//! receiver -- packets, in order --> queue -- thread --> block file, meta file
//!          <-- what became of them, in the same order --
//! ```
//!
//! A replica without an expected reader bypasses the page cache ([`Cache::Bypass`]): the cache keeps what others read, the bytes are copied once less, and the
//! sync at the end finds little to do. Where the file system does not support that, or a packet is not aligned, the cache is used.
//!
//! Invariant: packets are written in the order in which they were handed over; after the first failure, no more are written.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use protocol::checksum::CRC_BYTES;
use protocol::meta::{Layout, Tail};
use sys::disk::{DIRECT_ALIGNMENT_BYTES, File};
use sys::wake::Wake;
use transport::{Packet, PooledPacket};

/// Least data of a packet that justifies another thread and a disk write of its own.
pub(super) const LARGE_BYTES_MIN: u32 = 256 << 10;
/// Packets in the thread at once: one is being written, one waits.
pub(super) const PACKETS_MAX: usize = 2;

/// Where the data of a replica goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cache {
    /// Into the page cache, and from there to the disk.
    Keep,
    /// To the disk.
    Bypass,
}

/// The result of writing a packet.
pub(super) type Outcome = io::Result<Written>;

/// A packet in the files of its replica.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// Where its data ends, bytes from the start of the block.
    pub end: u64,
    /// Bytes of it that wait for a sync in the page cache.
    pub cached_bytes: u32,
    /// Proves its last chunk, if that is not full and more may follow.
    pub tail: Option<Tail>,
}

/// The open files of a replica that is being written.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub block: Arc<File>,
    /// Has its header, of the current version, before packets are written.
    pub meta: Arc<File>,
}

impl Files {
    /// Writes a packet through the page cache.
    pub(super) fn write(&self, packet: &Packet) -> Outcome {
        let header = packet.header;
        self.block.write_cached_at(packet.data(), header.offset)?;
        self.write_crcs(packet)?;
        Ok(Written { end: header.end(), cached_bytes: header.data_bytes, tail: tail_of(packet) })
    }

    fn write_crcs(&self, packet: &Packet) -> io::Result<()> {
        self.meta.write_all_at(packet.crcs(), Layout::CURRENT.crc_position(packet.header.offset))
    }
}

fn tail_of(packet: &Packet) -> Option<Tail> {
    let crc = packet.crcs().last_chunk::<CRC_BYTES>().filter(|_| !packet.header.last)?;
    Tail::of(packet.header.end(), u32::from_be_bytes(*crc))
}

/// The files that a thread writes to.
#[derive(Debug)]
pub(super) struct Target {
    pub files: Files,
    /// Path of the block file.
    pub path: PathBuf,
    pub cache: Cache,
}

/// Who writes the packets. Dropping this waits for it.
#[derive(Debug)]
pub(super) struct DiskThread {
    worker: Worker,
    in_flight: usize,
}

#[derive(Debug)]
enum Worker {
    Thread(Running),
    /// In simulations: a packet is written when somebody asks for its outcome.
    #[cfg(any(test, feature = "sim"))]
    Asked(Option<Disk>, std::collections::VecDeque<PooledPacket>),
}

#[derive(Debug)]
struct Running {
    queue: Option<SyncSender<PooledPacket>>,
    outcomes: Receiver<Outcome>,
    thread: Option<JoinHandle<()>>,
    wake: Arc<Wake>,
}

impl DiskThread {
    /// Starts one.
    pub(super) fn start(target: Target) -> io::Result<Self> {
        #[cfg(any(test, feature = "sim"))]
        if sys::disk::sim::is_simulated(&target.path) {
            let disk = Disk { direct: None, target };
            return Ok(DiskThread { worker: Worker::Asked(Some(disk), [].into()), in_flight: 0 });
        }
        Ok(DiskThread { worker: Worker::Thread(Running::start(target)?), in_flight: 0 })
    }

    /// Readable when there is an outcome; in a simulation, whoever asks gets it.
    pub(super) fn wake(&self) -> Option<&Wake> {
        match &self.worker {
            Worker::Thread(running) => Some(&running.wake),
            #[cfg(any(test, feature = "sim"))]
            Worker::Asked(..) => None,
        }
    }

    /// Packets handed over whose outcome has not arrived yet.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Hands a packet over; waits while there are [`PACKETS_MAX`].
    pub(super) fn write(&mut self, packet: PooledPacket) {
        self.in_flight += 1;
        match &mut self.worker {
            Worker::Thread(Running { queue: Some(queue), .. }) => {
                // A thread that has ended has already reported the reason.
                let _ = queue.send(packet);
            }
            Worker::Thread(_) => {}
            #[cfg(any(test, feature = "sim"))]
            Worker::Asked(_, packets) => packets.push_back(packet),
        }
    }

    /// The outcome of the oldest packet in flight, if it is known; with `wait`, once it is known.
    pub(super) fn outcome(&mut self, wait: bool) -> Option<Outcome> {
        // Clears the notification even of an outcome that was received before it arrived.
        if let Some(wake) = self.wake() {
            wake.clear();
        }
        if self.in_flight == 0 {
            return None;
        }
        let outcome = match &mut self.worker {
            Worker::Thread(running) if wait => running.outcomes.recv().ok(),
            Worker::Thread(running) => match running.outcomes.try_recv() {
                Err(std::sync::mpsc::TryRecvError::Empty) => return None,
                outcome => outcome.ok(),
            },
            #[cfg(any(test, feature = "sim"))]
            Worker::Asked(disk, packets) => {
                let outcome = disk.as_mut().zip(packets.pop_front());
                let outcome = outcome.map(|(disk, packet)| disk.write(&packet));
                disk.take_if(|_| !matches!(outcome, Some(Ok(_))));
                outcome
            }
        };
        self.in_flight -= 1;
        Some(outcome.unwrap_or_else(|| Err(io::Error::other("the thread of the disk has ended"))))
    }
}

impl Running {
    fn start(target: Target) -> io::Result<Self> {
        let wake = Arc::new(Wake::new()?);
        let notified = Arc::clone(&wake);
        let (queue, packets) = sync_channel::<PooledPacket>(PACKETS_MAX - 1);
        let (results, outcomes) = sync_channel(PACKETS_MAX);
        let run = move || {
            let mut disk = Disk { direct: None, target };
            for packet in packets {
                let outcome = disk.write(&packet);
                drop(packet);
                let failed = outcome.is_err();
                let sent = results.send(outcome);
                notified.notify();
                if failed || sent.is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("disk".to_owned()).spawn(run)?;
        Ok(Running { queue: Some(queue), outcomes, thread: Some(thread), wake })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.queue = None;
        // The thread may wait to report an outcome that nobody reads any more.
        while self.outcomes.recv().is_ok() {}
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of a disk panicked");
        }
    }
}

#[derive(Debug)]
struct Disk {
    target: Target,
    /// The block file opened a second time, bypassing the page cache.
    direct: Option<File>,
}

impl Disk {
    fn write(&mut self, packet: &Packet) -> Outcome {
        if !self.write_direct(packet)? {
            return self.target.files.write(packet);
        }
        self.target.files.write_crcs(packet)?;
        Ok(Written { end: packet.header.end(), cached_bytes: 0, tail: tail_of(packet) })
    }

    /// Writes data bypassing the page cache; false if that is not possible.
    fn write_direct(&mut self, packet: &Packet) -> io::Result<bool> {
        let header = packet.header;
        let both = header.offset | u64::from(header.data_bytes);
        if self.target.cache == Cache::Keep || !both.is_multiple_of(DIRECT_ALIGNMENT_BYTES as u64) {
            return Ok(false);
        }
        let written = match &self.direct {
            Some(file) => file.write_all_at(packet.data(), header.offset),
            None => File::open_direct(&self.target.path).and_then(|file| {
                self.direct.insert(file).write_all_at(packet.data(), header.offset)
            }),
        };
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                tracing::debug!(%error, "the file system wants its page cache used");
                self.target.cache = Cache::Keep;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::path::Path;
    use std::time::Duration;

    use protocol::{checksum, meta};
    use transport::PacketPool;

    fn packet(offset: u64, data: &[u8]) -> PooledPacket {
        let mut packet = PacketPool::default().take();
        packet.header.offset = offset;
        packet.append(data, data.len());
        packet.seal();
        packet
    }

    fn target(root: &Path, cache: Cache, writable: bool) -> Target {
        let path = root.join("block");
        std::fs::write(&path, b"").unwrap();
        let meta = root.join("meta");
        std::fs::write(&meta, meta::header()).unwrap();
        let open = if writable { File::open_writable } else { File::open };
        let [block, meta] = [&path, &meta].map(|path| Arc::new(open(path).unwrap()));
        let files = Files { block, meta };
        Target { files, path: path.clone(), cache }
    }

    fn outcomes(disk: &mut DiskThread) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        while disk.in_flight() > 0 {
            let woken =
                sys::poll::wait_readable([disk.wake().unwrap().as_fd()], Duration::from_secs(60));
            assert_eq!(woken.unwrap(), [true]);
            outcomes.extend(std::iter::from_fn(|| disk.outcome(false)));
        }
        outcomes
    }

    #[test]
    fn packets_of_any_alignment_end_up_in_both_files_in_order() {
        let data: Vec<u8> = (0..3_000_000u32).map(|n| (n * 31 % 251) as u8).collect();
        for cache in [Cache::Keep, Cache::Bypass] {
            let root = tempfile::tempdir().unwrap();
            let mut disk = DiskThread::start(target(root.path(), cache, true)).unwrap();
            let ends = [1 << 20, 2 << 20, (2 << 20) + 512, 3_000_000];
            let (mut begin, mut written) = (0, Vec::new());
            for end in ends {
                disk.write(packet(begin as u64, &data[begin..end]));
                written.extend(outcomes(&mut disk));
                begin = end;
            }
            let written: Vec<Written> = written.into_iter().map(Result::unwrap).collect();
            assert_eq!(written.iter().map(|one| one.end as usize).collect::<Vec<_>>(), ends);
            assert_eq!(written[3].cached_bytes as usize, ends[3] - ends[2], "not aligned");
            if cache == Cache::Keep {
                assert!(written.iter().all(|one| one.cached_bytes > 0));
            }
            drop(disk);
            assert!(std::fs::read(root.path().join("block")).unwrap() == data);
            let mut crcs = meta::header().to_vec();
            checksum::append_crcs(&data, &mut crcs);
            assert!(std::fs::read(root.path().join("meta")).unwrap() == crcs);
        }
    }

    #[test]
    fn after_a_packet_that_cannot_be_written_none_is() {
        let root = tempfile::tempdir().unwrap();
        let mut disk = DiskThread::start(target(root.path(), Cache::Keep, false)).unwrap();
        for number in 0..4 {
            disk.write(packet(number << 20, &[7; 1 << 20]));
            if number == 1 {
                assert!(disk.outcome(true).unwrap().is_err());
            }
        }
        let rest: Vec<Outcome> = std::iter::from_fn(|| disk.outcome(true)).collect();
        assert_eq!(rest.len(), 3);
        assert!(rest.iter().all(Result::is_err));
        assert_eq!(disk.in_flight(), 0);
        drop(disk);
        assert!(std::fs::read(root.path().join("block")).unwrap().is_empty());
    }
}
