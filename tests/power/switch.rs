//! The power switch of a cluster.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::Cluster;
use crate::support::cluster::spawn;

/// Time for killed processes to end.
const END_MAX: Duration = Duration::from_secs(60);

/// All processes stand still at once and never go on. `still` runs while they stand, `dead` when they are gone; then the cluster
/// starts again.
pub(crate) fn cut(cluster: &mut Cluster, still: impl FnOnce(), dead: impl FnOnce()) {
    let first = cluster.child.id();
    // From now on nothing is started any more.
    sys::process::pause(first).unwrap();
    let mut pids = vec![first];
    for entry in fs::read_dir(cluster.directory.join("pids")).into_iter().flatten().flatten() {
        let pid = fs::read_to_string(entry.path()).ok();
        pids.extend(pid.and_then(|pid| pid.trim().parse::<u32>().ok()));
    }
    pids.iter().for_each(|pid| sys::process::pause(*pid).unwrap());
    still();
    pids.iter().for_each(|pid| sys::process::kill(*pid).unwrap());
    cluster.child.wait().unwrap();
    let deadline = Instant::now() + END_MAX;
    while pids.iter().any(|pid| is_running(*pid)) {
        assert!(Instant::now() < deadline, "killed processes do not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    dead();
    let (child, namenode, jobtracker) = spawn(&cluster.directory, &cluster.options);
    (cluster.child, cluster.namenode, cluster.jobtracker) = (child, namenode, jobtracker);
}

/// True until a process has let go of its files; who is to wait for it does not matter.
fn is_running(pid: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat"));
    state.is_ok_and(|text| {
        text.rsplit(") ").next().is_some_and(|rest| !rest.starts_with(['Z', 'X']))
    })
}
