//! Executables of jobs that were damaged where a worker keeps them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{Stand, files_below, options};
use crate::support::report::{assert_no_panics, flip_a_bit};

impl Stand {
    fn executables(&self) -> Vec<PathBuf> {
        let all =
            [1, 2].map(|worker| self.cluster.directory.join(format!("worker-{worker}/binaries")));
        all.iter().flat_map(|directory| files_below(directory, "")).collect()
    }

    fn fetched_again(&self) -> usize {
        let logs = [1, 2].map(|worker| {
            let log = self.cluster.directory.join(format!("logs/worker-{worker}.log"));
            fs::read_to_string(log).unwrap()
        });
        let lines = logs.iter().flat_map(|log| log.lines());
        lines.filter(|line| line.contains("fetching a cached executable again")).count()
    }
}

/// What lies in the cache is another program, cut off, or differs in one bit; beneath a running worker, and before one starts.
#[test]
fn a_damaged_executable_is_noticed_and_fetched_again() {
    let stand = Stand::start(4, options());
    stand.begin("first", &[], &[]).succeed();
    let spoil: [fn(&PathBuf); 3] = [
        |path| fs::write(path, "#!/bin/sh\nexit 1\n").unwrap(),
        |path| fs::File::options().write(true).open(path).unwrap().set_len(1000).unwrap(),
        |path| flip_a_bit(path, fs::metadata(path).unwrap().len() / 2),
    ];
    for (number, spoil) in spoil.into_iter().enumerate() {
        let before = stand.fetched_again();
        let executables = stand.executables();
        assert!(!executables.is_empty(), "jobs have run");
        // Runners that are idle run it still, and the kernel lets nobody write to it.
        for daemon in ["worker-1", "worker-2"] {
            stand.kill(daemon);
        }
        stand.wait("both workers are back", |_| stand.active_workers() == 2);
        for path in &executables {
            let mode = fs::metadata(path).unwrap().permissions();
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
            stand.wait("the last runner is gone", |_| {
                fs::File::options().write(true).open(path).is_ok()
            });
            spoil(path);
            // Nothing but its bytes tells.
            fs::set_permissions(path, mode).unwrap();
        }
        stand.begin(&format!("spoiled-{number}"), &[], &[]).succeed();
        assert!(stand.fetched_again() > before, "spoiled in way {number}");
    }
    assert_no_panics(&stand.cluster);
}
