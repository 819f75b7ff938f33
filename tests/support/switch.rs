//! The power switch of a cluster.

use super::Cluster;
use super::processes::{kill_all, pause_tree};

/// All processes stand still at once and never go on. `still` runs while they stand, `dead` when they are gone; then the cluster
/// starts again, at the same addresses.
pub(crate) fn cut(cluster: &mut Cluster, still: impl FnOnce(), dead: impl FnOnce()) {
    let all = pause_tree(cluster.child.id());
    still();
    kill_all(&all);
    cluster.child.wait().unwrap();
    dead();
    cluster.begin();
}
