//! Checks of the data directories, each in a thread of its own: a disk that does not answer delays no other's.
//!
//! ```text
//! idle --pause--> a thread checks it --ends--> idle
//!                        | not within VOLUME_PROBE_MAX
//!                        v
//!                 out of service, until that thread has ended and the next one finds that it works
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sys::wake::Wake;

use crate::store::Store;

/// Time for a check of a data directory, which reads, writes and syncs a few bytes. Two minutes: a disk under full load takes seconds, and the system gives up a
/// command that a disk does not answer after 30 s, and tries it a few times. Meanwhile the directory gets new replicas, whose writers wait, too.
const VOLUME_PROBE_MAX: Duration = Duration::from_secs(120);
/// Longest sleep between two looks at the checks under way.
const LOOK_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// What becomes of a data directory.
enum Watched {
    /// Nobody checks it, since then.
    Idle(Instant),
    Checked {
        since: Instant,
        has_ended: Arc<AtomicBool>,
        /// It was in service when the check began. A directory that comes back is read as a whole, for as long as that takes.
        was_in_service: bool,
    },
}

/// Checks the data directories, with a pause after each check, until `stop` is notified; blocks.
pub(crate) fn run(store: &Arc<Store>, pause: Duration, stop: &Wake) {
    watch(store, (pause, VOLUME_PROBE_MAX), stop);
}

fn watch(store: &Arc<Store>, (pause, limit): (Duration, Duration), stop: &Wake) {
    let start = Instant::now();
    let mut volumes: Vec<Watched> =
        (0..store.volume_count()).map(|_| Watched::Idle(start)).collect();
    let look_interval = pause.min(limit).min(LOOK_INTERVAL_MAX);
    while matches!(stop.wait(look_interval), Ok(false)) {
        for (index, volume) in volumes.iter_mut().enumerate() {
            look(store, index, volume, (pause, limit));
        }
    }
}

fn look(
    store: &Arc<Store>,
    index: usize,
    volume: &mut Watched,
    (pause, limit): (Duration, Duration),
) {
    match volume {
        Watched::Idle(since) if since.elapsed() >= pause => *volume = begin(store, index),
        Watched::Idle(_) => {}
        Watched::Checked { has_ended, .. } if has_ended.load(Ordering::Acquire) => {
            *volume = Watched::Idle(Instant::now());
        }
        Watched::Checked { since, was_in_service: true, .. }
            if since.elapsed() >= limit && !store.is_out_of_service(index) =>
        {
            store.give_up_hanging(index, since.elapsed());
        }
        Watched::Checked { .. } => {}
    }
}

/// Begins a check. Its thread is not joined: it may never end.
fn begin(store: &Arc<Store>, index: usize) -> Watched {
    let has_ended = Arc::new(AtomicBool::new(false));
    let was_in_service = !store.is_out_of_service(index);
    let (store, ending) = (Arc::clone(store), Ending(Arc::clone(&has_ended)));
    let check = move || {
        store.check_volume(index);
        drop(ending);
    };
    let since = Instant::now();
    let started = std::thread::Builder::new().name(format!("volume-{index}")).spawn(check);
    match started {
        Ok(_) => Watched::Checked { since, has_ended, was_in_service },
        Err(error) => {
            tracing::warn!(%error, "cannot check a data directory now");
            Watched::Idle(since)
        }
    }
}

/// Notes the end of a check, however it ends.
struct Ending(Arc<AtomicBool>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::path::Path;

    use super::*;
    use crate::store::VolumeConfig;

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::yield_now();
        }
    }

    /// Opening a pipe that nobody writes to does not return, like a disk that does not answer.
    fn hang(path: &Path) {
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    }

    #[test]
    fn a_disk_that_does_not_answer_is_given_up_and_comes_back_while_others_are_checked() {
        let root = tempfile::tempdir().unwrap();
        let config = |name: &str| VolumeConfig {
            path: root.path().join(name),
            reserved_bytes: Some(0),
            trash_grace: Duration::ZERO,
            bypass_cache: false,
            small_bytes_max: 4096,
        };
        let configs = ["a", "b", "c"].map(config);
        let store = Arc::new(Store::open(&configs, 1 << 20, None).unwrap());
        let failed = |names: &[&str]| {
            let paths = names.iter().map(|name| root.path().join(name).display().to_string());
            store.failed_volumes() == paths.collect::<Vec<_>>()
        };
        let [version, aside] = ["VERSION", "aside"].map(|name| root.path().join("a").join(name));
        fs::rename(&version, &aside).unwrap();
        hang(&version);
        let stop = Arc::new(Wake::new().unwrap());
        let watcher = {
            let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
            let times = (Duration::from_millis(1), Duration::from_millis(200));
            std::thread::spawn(move || watch(&store, times, &stop))
        };
        until("it hangs", || failed(&["a"]));
        let report = &store.volume_reports()[0];
        let reason = &report.failure.as_ref().unwrap().reason;
        assert!(reason.contains("has not answered"), "{reason}");
        // Others fail and come back beside it.
        let [there, gone] = ["c", "gone"].map(|name| root.path().join(name));
        fs::rename(&there, &gone).unwrap();
        until("another fails", || failed(&["a", "c"]));
        fs::rename(&gone, &there).unwrap();
        until("another works again", || failed(&["a"]));
        // It answers: whoever waits reads what there is, and the next check finds that it works.
        let pipe = root.path().join("pipe");
        fs::rename(&version, &pipe).unwrap();
        fs::rename(&aside, &version).unwrap();
        drop(OpenOptions::new().write(true).open(&pipe).unwrap());
        until("it works again", || failed(&[]));
        stop.notify();
        watcher.join().unwrap();
    }
}
