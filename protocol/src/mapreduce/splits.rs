//! The splits of a job in little room: each name once, files by what distinguishes them, and a short row for each split. A million of them fit a message and a
//! record of the journal.
//!
//! Invariants: what a row points to is there; a split that is read ([`Splits::get`]) has at most [`SPLIT_BYTES_MAX`] of paths, [`HOSTS_MAX`] hosts and as many
//! racks, and [`SPLIT_PARTS_MAX`] parts, so a short table never becomes a large split.

use std::collections::HashMap;
use std::hash::Hash;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::short_paths::{self, ShortPath};
use super::split::{HOSTS_MAX, SPLIT_PARTS_MAX, Split, SplitPart};
use crate::DfsPath;
use crate::wire::{ENTRIES_MAX, at_most};

/// Most map tasks of a job, well beyond what one JobTracker can schedule.
pub const SPLITS_MAX: usize = 1_000_000;
/// Most bytes of the paths of one split.
pub const SPLIT_BYTES_MAX: usize = 16 << 20;
/// Longest name of a machine or a rack, bytes: four names of DNS.
const NAME_BYTES_MAX: usize = 1024;

/// The splits of a job, in their order. Sent as a [`Table`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Splits {
    paths: Vec<DfsPath>,
    /// Of machines and racks.
    names: Vec<String>,
    rows: Vec<Row>,
    hosts: Vec<u32>,
    racks: Vec<u32>,
    parts: Vec<Part>,
}

/// A split: its numbers, and where its lists begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    path: u32,
    input: u32,
    offset: u64,
    length: u64,
    hosts: u32,
    racks: u32,
    parts: u32,
}

/// [`Splits`] as they are sent and stored.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Table {
    /// Every path once.
    #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
    pub paths: Vec<ShortPath>,
    /// Every name of a machine or a rack once.
    #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
    pub names: Vec<String>,
    /// One for each split.
    #[serde(deserialize_with = "at_most::<SPLITS_MAX, _, _>")]
    pub rows: Vec<TableRow>,
    /// Indices in `names`: the hosts of all splits, one split after the other.
    #[serde(deserialize_with = "at_most::<LISTED_MAX, _, _>")]
    pub hosts: Vec<u32>,
    /// The racks, likewise.
    #[serde(deserialize_with = "at_most::<LISTED_MAX, _, _>")]
    pub racks: Vec<u32>,
    /// Further files of all splits, likewise.
    #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
    pub parts: Vec<Part>,
}

/// Hosts or racks of all splits: as many as a message of the largest size can list.
const LISTED_MAX: usize = 16 << 20;

/// A split in a [`Table`]: small numbers, which are short.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TableRow {
    /// Index of its path, less that of the split before.
    pub path: i32,
    /// The job's input that it belongs to.
    pub input: u32,
    /// Its start, less the end of the split before if that is of the same file.
    pub offset: i64,
    /// Its length, less that of the split before.
    pub length: i64,
    /// Number of its hosts.
    pub hosts: u32,
    /// Number of its racks.
    pub racks: u32,
    /// Number of its further files.
    pub parts: u32,
}

/// A further file of a split.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// Index of its path.
    pub path: u32,
    /// Start, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub length: u64,
}

/// A table whose parts do not fit each other, or whose splits would be too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a table of splits that contradicts itself or has too large a split")]
pub struct TableError;

impl Splits {
    /// So many splits of which nothing is known.
    pub fn nowhere(count: usize) -> Self {
        let row = Row { path: 0, input: 0, offset: 0, length: 0, hosts: 0, racks: 0, parts: 0 };
        Splits { paths: vec![DfsPath::root()], rows: vec![row; count], ..Splits::default() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A split.
    pub fn get(&self, index: usize) -> Option<Split> {
        let row = self.rows.get(index)?;
        let part = |part: &Part| SplitPart {
            path: self.paths[part.path as usize].clone(),
            offset: part.offset,
            length: part.length,
        };
        Some(Split {
            path: self.paths[row.path as usize].clone(),
            offset: row.offset,
            length: row.length,
            hosts: self.hosts_of(index).map(str::to_owned).collect(),
            racks: self.racks_of(index).map(str::to_owned).collect(),
            input: row.input,
            more: self.parts_of(index).iter().map(part).collect(),
        })
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Split> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The machines of a split; none if there is no such split.
    pub fn hosts_of(&self, index: usize) -> impl Iterator<Item = &str> {
        let hosts = self.list(&self.hosts, index, |row| row.hosts);
        hosts.iter().map(|name| self.names[*name as usize].as_str())
    }

    /// The racks of a split; none if there is no such split.
    pub fn racks_of(&self, index: usize) -> impl Iterator<Item = &str> {
        let racks = self.list(&self.racks, index, |row| row.racks);
        racks.iter().map(|name| self.names[*name as usize].as_str())
    }

    /// Number of different files, and bytes of all splits.
    pub fn input_size(&self) -> (u64, u64) {
        let rows = self.rows.iter().map(|row| (row.path, row.length));
        let all = rows.chain(self.parts.iter().map(|part| (part.path, part.length)));
        let mut is_read = vec![false; self.paths.len()];
        let mut bytes = 0u64;
        for (path, length) in all {
            is_read[path as usize] = true;
            bytes = bytes.saturating_add(length);
        }
        (is_read.into_iter().filter(|is_read| *is_read).count() as u64, bytes)
    }

    /// Forgets the machines and racks of all splits.
    pub fn forget_places(&mut self) {
        self.rows.iter_mut().for_each(|row| (row.hosts, row.racks) = (0, 0));
        (self.names, self.hosts, self.racks) = (Vec::new(), Vec::new(), Vec::new());
    }

    fn parts_of(&self, index: usize) -> &[Part] {
        self.list(&self.parts, index, |row| row.parts)
    }

    /// The part of a list that belongs to a split.
    fn list<'a, T>(&self, all: &'a [T], index: usize, start: fn(&Row) -> u32) -> &'a [T] {
        let Some(row) = self.rows.get(index) else { return &[] };
        let end = self.rows.get(index + 1).map_or(all.len(), |next| start(next) as usize);
        &all[start(row) as usize..end]
    }

    fn check(&self) -> Result<(), TableError> {
        let is_path = |path: u32| (path as usize) < self.paths.len();
        let is_name = |name: &u32| (*name as usize) < self.names.len();
        let fits = self.rows.iter().all(|row| is_path(row.path))
            && self.parts.iter().all(|part| is_path(part.path))
            && self.hosts.iter().chain(&self.racks).all(is_name)
            && self.names.iter().all(|name| name.len() <= NAME_BYTES_MAX);
        let bytes = |path: u32| self.paths[path as usize].as_str().len();
        let is_small = |index| {
            let (row, parts) = (self.rows[index], self.parts_of(index));
            let bytes = bytes(row.path) + parts.iter().map(|part| bytes(part.path)).sum::<usize>();
            parts.len() <= SPLIT_PARTS_MAX
                && self.list(&self.hosts, index, |row| row.hosts).len() <= HOSTS_MAX
                && self.list(&self.racks, index, |row| row.racks).len() <= HOSTS_MAX
                && bytes <= SPLIT_BYTES_MAX
        };
        if fits && (0..self.len()).all(is_small) { Ok(()) } else { Err(TableError) }
    }
}

impl Serialize for Splits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Table::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Splits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Splits::try_from(Table::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl FromIterator<Split> for Splits {
    fn from_iter<I: IntoIterator<Item = Split>>(splits: I) -> Self {
        let mut made = Splits::default();
        let (mut paths, mut names) = (HashMap::new(), HashMap::new());
        let number = |count: usize| u32::try_from(count).expect("a job's lists are bounded");
        for Split { path, offset, length, hosts, racks, input, more } in splits {
            made.rows.push(Row {
                path: interned(&mut paths, &mut made.paths, path),
                input,
                offset,
                length,
                hosts: number(made.hosts.len()),
                racks: number(made.racks.len()),
                parts: number(made.parts.len()),
            });
            let mut name = |name| interned(&mut names, &mut made.names, name);
            made.hosts.extend(hosts.into_iter().map(&mut name));
            made.racks.extend(racks.into_iter().map(&mut name));
            made.parts.extend(more.into_iter().map(|SplitPart { path, offset, length }| {
                let path = interned(&mut paths, &mut made.paths, path);
                Part { path, offset, length }
            }));
        }
        made
    }
}

/// The index of a value in `all`, where it is now if it was not.
fn interned<T: Clone + Eq + Hash>(known: &mut HashMap<T, u32>, all: &mut Vec<T>, value: T) -> u32 {
    *known.entry(value).or_insert_with_key(|value| {
        all.push(value.clone());
        u32::try_from(all.len() - 1).expect("a job's lists are bounded")
    })
}

impl From<Splits> for Table {
    fn from(splits: Splits) -> Table {
        let mut before: Option<Row> = None;
        let mut rows = Vec::with_capacity(splits.len());
        for (index, row) in splits.rows.iter().enumerate() {
            let (offset, length) = expected(before, row.path);
            let path = before.map_or(0, |before| before.path);
            rows.push(TableRow {
                path: row.path.wrapping_sub(path).cast_signed(),
                input: row.input,
                offset: row.offset.wrapping_sub(offset).cast_signed(),
                length: row.length.wrapping_sub(length).cast_signed(),
                hosts: splits.list(&splits.hosts, index, |row| row.hosts).len() as u32,
                racks: splits.list(&splits.racks, index, |row| row.racks).len() as u32,
                parts: splits.parts_of(index).len() as u32,
            });
            before = Some(*row);
        }
        let Splits { paths, names, hosts, racks, parts, .. } = splits;
        Table { paths: short_paths::shorten(&paths), names, rows, hosts, racks, parts }
    }
}

impl TryFrom<Table> for Splits {
    type Error = TableError;

    fn try_from(table: Table) -> Result<Splits, TableError> {
        let Table { paths, names, rows: short, hosts, racks, parts } = table;
        let mut rows: Vec<Row> = Vec::with_capacity(short.len());
        let [mut host_count, mut rack_count, mut part_count] = [0u32; 3];
        for row in short {
            let before = rows.last().copied();
            let path = before.map_or(0, |before| before.path).wrapping_add_signed(row.path);
            let (offset, length) = expected(before, path);
            rows.push(Row {
                path,
                input: row.input,
                offset: offset.wrapping_add_signed(row.offset),
                length: length.wrapping_add_signed(row.length),
                hosts: host_count,
                racks: rack_count,
                parts: part_count,
            });
            let add = |count: &mut u32, more| {
                *count = count.checked_add(more).ok_or(TableError)?;
                Ok(())
            };
            add(&mut host_count, row.hosts)?;
            add(&mut rack_count, row.racks)?;
            add(&mut part_count, row.parts)?;
        }
        let counts = [host_count, rack_count, part_count].map(|count| count as usize);
        if counts != [hosts.len(), racks.len(), parts.len()] {
            return Err(TableError);
        }
        let paths = short_paths::lengthen(paths).map_err(|_| TableError)?;
        let splits = Splits { paths, names, rows, hosts, racks, parts };
        splits.check()?;
        Ok(splits)
    }
}

/// Start and length of a split of this file, if it is like the one before.
fn expected(before: Option<Row>, path: u32) -> (u64, u64) {
    match before {
        Some(row) if row.path == path => (row.offset.wrapping_add(row.length), row.length),
        Some(row) => (0, row.length),
        None => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire;

    fn path(text: &str) -> DfsPath {
        DfsPath::parse(text).unwrap()
    }

    fn split(file: u8, numbers: (u64, u64), places: &[u8], more: &[u8]) -> Split {
        let name = |place: &u8| format!("host-{place}");
        let part =
            |file: &u8| SplitPart { path: path(&format!("/in/{file}")), offset: 3, length: 9 };
        Split {
            path: path(&format!("/in/{file}")),
            offset: numbers.0,
            length: numbers.1,
            hosts: places.iter().map(name).collect(),
            racks: places.iter().map(|place| format!("/rack-{}", place / 4)).collect(),
            input: u32::from(file % 3),
            more: more.iter().map(part).collect(),
        }
    }

    fn any_split() -> impl Strategy<Value = Split> {
        let numbers = (any::<u64>(), any::<u64>());
        let few = || prop::collection::vec(0..20u8, 0..4);
        (0..5u8, numbers, few(), few())
            .prop_map(|(file, numbers, places, more)| split(file, numbers, &places, &more))
    }

    proptest! {
        #[test]
        fn splits_are_what_they_were(all in prop::collection::vec(any_split(), 0..40)) {
            let splits: Splits = all.iter().cloned().collect();
            let sent: Splits = wire::decode(&wire::encode(&splits), "splits").unwrap();
            prop_assert_eq!(&sent, &splits);
            prop_assert_eq!(sent.iter().collect::<Vec<_>>(), all.clone());
            let mut forgotten = sent;
            forgotten.forget_places();
            for (index, split) in all.into_iter().enumerate() {
                let without = Split { hosts: Vec::new(), racks: Vec::new(), ..split };
                prop_assert_eq!(forgotten.get(index), Some(without));
            }
        }
    }

    #[test]
    fn a_million_splits_fit_a_message() {
        const BLOCK: u64 = 128 << 20;
        let rows = (0..1_000_000u32).map(|number| {
            let (file, block) = (number / 1000, u64::from(number % 1000));
            // Three of 2,000 machines in two of 50 racks.
            let host =
                |replica: u32| (number.wrapping_mul(7919).wrapping_add(replica * 613)) % 2000;
            Split {
                path: path(&format!("/warehouse/events/year=2026/part-{file:05}")),
                offset: block * BLOCK,
                length: BLOCK,
                hosts: (0..3).map(|replica| format!("node{:04}.example", host(replica))).collect(),
                racks: (0..2).map(|replica| format!("/rack{:02}", host(replica) / 40)).collect(),
                input: 0,
                more: Vec::new(),
            }
        });
        let splits: Splits = rows.collect();
        let bytes = wire::encode(&splits);
        assert!(bytes.len() < 15 << 20, "{}", bytes.len());
        let sent: Splits = wire::decode(&bytes, "splits").unwrap();
        assert!(sent == splits && sent.input_size() == (1000, 1_000_000 * BLOCK));
    }

    #[test]
    fn a_job_of_half_a_million_files_fits_a_message() {
        // As a program names them, and as one with an id of its own for the run does; each a map, and ten to a map.
        for (tail, alone) in [("", true), ("-5f8e0c1a-77aa-4c0b-9d1e-3a1b2c4d5e6f.c000.gz", false)]
        {
            let place = |number: u32| {
                path(&format!("/logs/day={:03}/part-{:05}{tail}", number / 2000, number % 2000))
            };
            let one = |number: u32| Split {
                path: place(number),
                offset: 0,
                length: 3000 + u64::from(number % 977),
                hosts: (0..3)
                    .map(|replica| format!("node{:04}", (number + replica) % 200))
                    .collect(),
                racks: (0..2)
                    .map(|replica| format!("/rack{:02}", (number + replica) % 10))
                    .collect(),
                input: 0,
                more: Vec::new(),
            };
            let ten = |number: u32| {
                let part = |file| SplitPart { path: place(number + file), offset: 0, length: 3000 };
                Split { more: (1..10).map(part).collect(), ..one(number) }
            };
            let numbers = 0..500_000u32;
            let splits: Splits = if alone {
                numbers.map(one).collect()
            } else {
                numbers.step_by(10).map(ten).collect()
            };
            let bytes = wire::encode(&splits);
            assert!(bytes.len() < 15 << 20, "{}", bytes.len());
            let sent: Splits = wire::decode(&bytes, "splits").unwrap();
            assert!(sent == splits && sent.input_size().0 == 500_000);
        }
    }

    #[test]
    fn a_table_that_contradicts_itself_is_refused() {
        let all = [split(1, (0, 5), &[1, 2], &[3]), split(1, (5, 5), &[2], &[])];
        let table = Table::from(all.into_iter().collect::<Splits>());
        assert!(Splits::try_from(table.clone()).is_ok());
        type Change = fn(&mut Table);
        let break_it: [(&str, Change); 10] = [
            ("what a path shares", |table| table.paths[0].head = 1),
            ("a path", |table| table.rows[1].path = 2),
            ("a path before the first", |table| table.rows[0].path = -1),
            ("a path of a part", |table| table.parts[0].path = 2),
            ("a host", |table| table.hosts[2] = 99),
            ("a rack", |table| table.racks[0] = 99),
            ("a count too many", |table| table.rows[0].hosts = 3),
            ("a count too few", |table| table.rows[1].racks = 0),
            ("counts beyond their type", |table| {
                table.rows.iter_mut().for_each(|row| row.parts = u32::MAX);
            }),
            ("a long name", |table| table.names[0] = "x".repeat(NAME_BYTES_MAX + 1)),
        ];
        for (what, change) in break_it {
            let mut table = table.clone();
            change(&mut table);
            assert_eq!(Splits::try_from(table), Err(TableError), "{what}");
        }
    }

    #[test]
    fn a_short_table_has_no_large_split() {
        let long = format!("/{}", vec!["x".repeat(200); 39].join("/"));
        let mut all = split(1, (0, 5), &[1], &[]);
        let part = SplitPart { path: path(&long), offset: 0, length: 1 };
        all.more = vec![part; SPLIT_BYTES_MAX / long.len() + 1];
        let table = Table::from([all].into_iter().collect::<Splits>());
        assert!(wire::encode(&table).len() < 1 << 20);
        assert_eq!(Splits::try_from(table), Err(TableError));
        let many = split(1, (0, 5), &[1; HOSTS_MAX + 1], &[]);
        let table = Table::from([many].into_iter().collect::<Splits>());
        assert_eq!(Splits::try_from(table), Err(TableError));
    }
}
