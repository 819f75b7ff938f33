//! Packing small files into tasks: a pure function of their sizes and of the machines that hold them.
//!
//! Starting a task costs more than reading a small file. Where an input has more files than keep the slots busy, a task reads several, one
//! after the other, each with a mapper of its own.
//!
//! Invariants: every file is in one task; packing leaves `TASKS_PER_SLOT` tasks for each slot or does nothing; the files of a task have a
//! machine in common that holds them, as far as any holds them.

use std::collections::BTreeMap;

/// What a file costs besides its bytes: so many could be read while it is found and opened.
const FILE_COST_BYTES: u64 = 64 << 10;
/// Tasks that packing leaves for each slot: with two, a slot that is done early finds more work.
const TASKS_PER_SLOT: u64 = 2;

/// A file that is one split.
#[derive(Clone, Copy, Debug)]
pub struct WholeFile<'a> {
    /// Its length.
    pub bytes: u64,
    /// Machines with a replica.
    pub hosts: &'a [String],
}

impl WholeFile<'_> {
    fn cost(&self) -> u64 {
        self.bytes.saturating_add(FILE_COST_BYTES)
    }
}

/// How far to pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packing {
    /// Slots of the cluster.
    pub slots: u32,
    /// The most bytes that a task reads if it reads several files.
    pub bytes_max: u64,
    /// The most files of a task.
    pub files_max: usize,
}

/// The files of each task, by their indexes: in order within a task, and tasks by their first file.
pub fn pack(files: &[WholeFile<'_>], packing: Packing) -> Vec<Vec<usize>> {
    let tasks_least = TASKS_PER_SLOT * u64::from(packing.slots.max(1));
    if files.len() as u64 <= tasks_least || packing.files_max <= 1 {
        return (0..files.len()).map(|file| vec![file]).collect();
    }
    let total = files.iter().map(WholeFile::cost).fold(0, u64::saturating_add);
    let cost_max = total.div_ceil(tasks_least);
    let (mut tasks, mut open): (_, BTreeMap<&str, Task>) = (Vec::new(), BTreeMap::new());
    let mut given: BTreeMap<&str, u64> = BTreeMap::new();
    for (index, file) in files.iter().enumerate() {
        let least = |host: &&String| given.get(host.as_str()).copied().unwrap_or(0);
        let host = file.hosts.iter().min_by_key(least).map_or("", String::as_str);
        *given.entry(host).or_default() += file.cost();
        let task = open.entry(host).or_default();
        let is_full = task.cost.saturating_add(file.cost()) > cost_max
            || task.bytes.saturating_add(file.bytes) > packing.bytes_max
            || task.files.len() >= packing.files_max;
        if is_full && !task.files.is_empty() {
            tasks.push(std::mem::take(task).files);
        }
        task.files.push(index);
        task.bytes += file.bytes;
        task.cost += file.cost();
    }
    tasks.extend(open.into_values().map(|task| task.files).filter(|files| !files.is_empty()));
    tasks.sort_unstable();
    tasks
}

#[derive(Default)]
struct Task {
    files: Vec<usize>,
    bytes: u64,
    cost: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKING: Packing = Packing { slots: 4, bytes_max: 1 << 20, files_max: 1000 };

    fn packed(files: &[(u64, &[String])], packing: Packing) -> Vec<Vec<usize>> {
        let files: Vec<_> =
            files.iter().map(|(bytes, hosts)| WholeFile { bytes: *bytes, hosts }).collect();
        let tasks = pack(&files, packing);
        let mut all = tasks.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..files.len()), "each file is in one task");
        tasks
    }

    #[test]
    fn few_files_have_a_task_each() {
        assert_eq!(packed(&[(1, &[][..]); 8], PACKING).len(), 8);
        assert_eq!(packed(&[], PACKING), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn many_files_leave_two_tasks_for_each_slot() {
        for count in [9, 100, 5000] {
            let tasks = packed(&vec![(10, &[][..]); count], PACKING);
            assert!((8..=9).contains(&tasks.len()), "{count} files: {} tasks", tasks.len());
        }
    }

    #[test]
    fn limits_of_a_task_hold() {
        let files = vec![(100 << 10, &[][..]); 400];
        assert!(packed(&files, PACKING).iter().all(|task| task.len() <= 10), "a mebibyte each");
        let few = Packing { files_max: 3, ..PACKING };
        assert!(packed(&files, few).iter().all(|task| task.len() <= 3));
        let one = Packing { files_max: 1, ..PACKING };
        assert_eq!(packed(&files, one).len(), 400);
    }

    #[test]
    fn a_large_file_stays_alone() {
        let mut files = vec![(10, &[][..]); 100];
        files[50] = (5 << 20, &[]);
        assert!(packed(&files, PACKING).contains(&vec![50]));
    }

    #[test]
    fn files_of_a_task_are_on_one_machine_and_machines_get_equal_shares() {
        let hosts = ["a", "b", "c", "d"].map(str::to_owned);
        let files: Vec<(u64, &[String])> = (0..400).map(|n| (10, &hosts[n % 3..][..2])).collect();
        let tasks = packed(&files, PACKING);
        for task in &tasks {
            let holds_all = |host: &&String| task.iter().all(|file| files[*file].1.contains(host));
            assert!(hosts.iter().any(|host| holds_all(&host)), "{task:?}");
        }
        assert!(tasks.len() <= 8 + hosts.len(), "{} tasks", tasks.len());
        assert!(tasks.iter().map(Vec::len).max() <= Some(60));
    }
}
