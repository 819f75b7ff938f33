//! Checks free space on the disks of the metadata, so that the NameNode stops taking changes before a full disk would end it; and reports
//! directories of `log_dirs` that are left out.

use std::path::PathBuf;
use std::time::Duration;

use daemon::Shutdown;
use host::Mailbox;
use journal::Journal;
use tokio::time::MissedTickBehavior;

use crate::config::Config;
use crate::server::Event;

/// The disks to check.
pub(crate) struct Disks {
    pub(crate) config: Config,
    pub(crate) journal: Journal,
}

/// Reports to the host at every check, until `shutdown`. The first check is immediate.
pub(crate) async fn watch(events: Mailbox<Event>, disks: Disks, shutdown: Shutdown) {
    let Disks { config, journal } = disks;
    let mut interval = tokio::time::interval(Duration::from_millis(config.resource_check_ms));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut low = false;
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = shutdown.wait() => return,
        }
        let directories: Vec<PathBuf> =
            [&config.data_dir].into_iter().chain(journal.dirs()).cloned().collect();
        // A disk that hangs must not hold up the service.
        let measured = tokio::task::spawn_blocking(move || fullest(directories)).await;
        let Ok(Some((available, directory))) = measured else { continue };
        low = is_low(available, config.free_space_min, low);
        let left_out = journal.left_out().iter().map(ToString::to_string).collect();
        let event = Event::Resources { available, directory, low, left_out };
        if events.send(event).await.is_err() {
            return;
        }
    }
}

/// The directory with the least free space, and how much; logs disks whose free space is unknown.
fn fullest(directories: Vec<PathBuf>) -> Option<(u64, PathBuf)> {
    let known = directories.into_iter().filter_map(|directory| match sys::fs::space(&directory) {
        Ok(space) => Some((space.available, directory)),
        Err(error) => {
            let directory = directory.display();
            tracing::warn!(%directory, %error, "cannot tell the free space of a disk of the metadata");
            None
        }
    });
    known.min()
}

/// Whether there is too little room. Once there was too little, there must be an eighth more than the minimum before there is enough.
/// Otherwise deleting a little and writing a little would turn safe mode on and off.
fn is_low(available: u64, free_space_min: u64, was_low: bool) -> bool {
    let least =
        if was_low { free_space_min.saturating_add(free_space_min / 8) } else { free_space_min };
    available < least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_gone_hides_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let (here, gone) = (directory.path().to_owned(), directory.path().join("gone"));
        let found = fullest(vec![gone.clone(), here.clone()]);
        assert_eq!(found.map(|(_, directory)| directory), Some(here));
        assert_eq!(fullest(vec![gone]), None);
    }

    #[test]
    fn room_is_back_when_there_is_a_little_more_than_the_least() {
        for (available, was_low, low) in [
            (799, false, true),
            (800, false, false),
            (800, true, true),
            (899, true, true),
            (900, true, false),
        ] {
            assert_eq!(is_low(available, 800, was_low), low, "{available} {was_low}");
        }
        assert!(!is_low(0, 0, true) && !is_low(0, 0, false));
    }
}
