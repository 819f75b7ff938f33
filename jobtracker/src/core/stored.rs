//! What edits keep of messages, in forms of the journal: a message can change without the disk, and the disk without the messages.
//!
//! Each form lists the fields as they are on disk; the compiler checks it against the type that it stands for. When that type gets a field, its
//! form does not compile: either the field gets a value for records that lack it, or the edits get a new version (`edit.rs`). Ids, paths and
//! hashes have no forms: they are one value, and the same everywhere.

use std::collections::BTreeMap;

use protocol::jobs::{JobSpec, JobState, Part, Priority, Split, SplitPart, Splits, TableRow};
use protocol::phase::Phase;
use protocol::rounds::{RoundsSpec, Summary};
use protocol::short_paths::ShortPath;
use protocol::sizing::ReduceSizing;
use protocol::tracker::{HotKey, MapOutput};
use protocol::wire::{Bounded, at_most};
use protocol::{AttemptId, BinaryHash, DfsPath, RecordAt};
use serde::{Deserialize, Deserializer, Serialize};

/// Longest list in an edit: no job has more splits, parts of a split, arguments or properties.
const LIST_MAX: usize = 1 << 20;

/// Hosts or racks of all splits of a job: as many as a record can list.
const PLACES_MAX: usize = 16 << 20;

/// Reads such a list.
fn places<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    at_most::<PLACES_MAX, D, Vec<u32>>(deserializer)
}

/// Reads a list or a map.
fn list<'de, D: Deserializer<'de>, C: Bounded<'de>>(deserializer: D) -> Result<C, D::Error> {
    at_most::<LIST_MAX, D, C>(deserializer)
}

/// A job as submitted, in records from before splits were kept as a table.
#[derive(Serialize, Deserialize)]
#[serde(remote = "JobSpec")]
pub(super) struct SpecForm {
    name: String,
    binary: BinaryHash,
    #[serde(deserialize_with = "list")]
    args: Vec<String>,
    stage: u32,
    fingerprint: u64,
    #[serde(with = "one_by_one")]
    splits: Splits,
    reduce_count: u32,
    output: DfsPath,
    attempts_max: u32,
    slow_start_permille: u16,
    #[serde(deserialize_with = "list")]
    properties: BTreeMap<String, String>,
    #[serde(with = "sizing")]
    sizing: Option<ReduceSizing>,
    /// Jobs in rounds have an edit of their own.
    #[serde(skip)]
    rounds: Option<RoundsSpec>,
}

/// How a job goes in rounds.
#[derive(Serialize, Deserialize)]
#[serde(remote = "RoundsSpec")]
pub(super) struct RoundsForm {
    last: u32,
    keep_every: u32,
}

/// What a task of a round tells the next round.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Summary")]
pub(super) struct SummaryForm {
    #[serde(deserialize_with = "list")]
    bytes: Vec<u8>,
}

/// Input of a map.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Split")]
struct SplitForm {
    path: DfsPath,
    offset: u64,
    length: u64,
    #[serde(deserialize_with = "list")]
    hosts: Vec<String>,
    #[serde(deserialize_with = "list")]
    racks: Vec<String>,
    input: u32,
    #[serde(with = "parts")]
    more: Vec<SplitPart>,
}

/// A path among them.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ShortPath")]
struct PathForm {
    head: u32,
    own: String,
    tail: u32,
}

/// The input of a map among them.
#[derive(Serialize, Deserialize)]
#[serde(remote = "TableRow")]
struct RowForm {
    path: i32,
    input: u32,
    offset: i64,
    length: i64,
    hosts: u32,
    racks: u32,
    parts: u32,
}

/// A part of a file among them.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Part")]
struct TablePartForm {
    path: u32,
    offset: u64,
    length: u64,
}

/// A part of a file in the input of a map.
#[derive(Serialize, Deserialize)]
#[serde(remote = "SplitPart")]
struct PartForm {
    path: DfsPath,
    offset: u64,
    length: u64,
}

/// What the number of reduces is chosen from.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ReduceSizing")]
struct SizingForm {
    slot_count: u32,
}

/// Where the output of a map is.
#[derive(Serialize, Deserialize)]
#[serde(remote = "MapOutput")]
pub(super) struct OutputForm {
    attempt: AttemptId,
    http_address: String,
    boot_id: String,
    data_path: String,
}

/// A key with a large share of the records.
#[derive(Serialize, Deserialize)]
#[serde(remote = "HotKey")]
struct HotKeyForm {
    text: String,
    records: u64,
}

/// A record of a split.
#[derive(Serialize, Deserialize)]
#[serde(remote = "RecordAt")]
struct RecordForm {
    part: u32,
    offset: u64,
}

/// Life of a job. Append only.
#[derive(Serialize, Deserialize)]
#[serde(remote = "JobState")]
pub(super) enum StateForm {
    Running,
    Committing,
    Succeeded,
    Failed,
    Killed,
}

/// Urgency. Append only.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Priority")]
pub(super) enum PriorityForm {
    VeryLow,
    Low,
    Normal,
    High,
    VeryHigh,
}

/// Phase of an attempt. Append only.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Phase")]
enum PhaseForm {
    Read,
    Map,
    Sort,
    Spill,
    Merge,
    Shuffle,
    ReduceMerge,
    Reduce,
}

/// Modules for `#[serde(with)]`: lists of values that have a form, and options of them.
macro_rules! several {
    ($($name:ident: $outer:ident<$value:ident> as $form:literal;)*) => {$(
        pub(super) mod $name {
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            use crate::core::stored::$value;

            #[derive(Serialize)]
            struct Written<'a>(#[serde(with = $form)] &'a $value);

            #[derive(Deserialize)]
            struct Read(#[serde(with = $form)] $value);

            several!($outer, $value);
        }
    )*};
    (Vec, $value:ident) => {
        pub(crate) fn serialize<S: Serializer>(
            list: &[$value],
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(list.iter().map(Written))
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Vec<$value>, D::Error> {
            let list: Vec<Read> = crate::core::stored::list(deserializer)?;
            Ok(list.into_iter().map(|Read(value)| value).collect())
        }
    };
    (Option, $value:ident) => {
        pub(crate) fn serialize<S: Serializer>(
            value: &Option<$value>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            value.as_ref().map(Written).serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<$value>, D::Error> {
            Ok(Option::<Read>::deserialize(deserializer)?.map(|Read(value)| value))
        }
    };
}

several! {
    splits: Vec<Split> as "crate::core::stored::SplitForm";
    parts: Vec<SplitPart> as "crate::core::stored::PartForm";
    hot_keys: Vec<HotKey> as "crate::core::stored::HotKeyForm";
    rows: Vec<TableRow> as "crate::core::stored::RowForm";
    table_parts: Vec<Part> as "crate::core::stored::TablePartForm";
    paths: Vec<ShortPath> as "crate::core::stored::PathForm";
    sizing: Option<ReduceSizing> as "crate::core::stored::SizingForm";
    rounds: Option<RoundsSpec> as "crate::core::stored::RoundsForm";
    record: Option<RecordAt> as "crate::core::stored::RecordForm";
    phase: Option<Phase> as "crate::core::stored::PhaseForm";
}

/// Splits one behind the other, with all their names, as records had them at first.
mod one_by_one {
    use protocol::jobs::Splits;
    use serde::{Deserializer, Serializer};

    use crate::core::stored::splits;

    pub(crate) fn serialize<S: Serializer>(all: &Splits, serializer: S) -> Result<S::Ok, S::Error> {
        splits::serialize(&all.iter().collect::<Vec<_>>(), serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Splits, D::Error> {
        Ok(splits::deserialize(deserializer)?.into_iter().collect())
    }
}

/// Forms of a job with its splits as a table, each with a module for such splits. They differ in the paths.
macro_rules! with_table {
    ($($(#[$doc:meta])* $form:ident, $splits:ident as $with:literal, paths as $paths:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Serialize, Deserialize)]
        #[serde(remote = "JobSpec")]
        pub(super) struct $form {
            name: String,
            binary: BinaryHash,
            #[serde(deserialize_with = "list")]
            args: Vec<String>,
            stage: u32,
            fingerprint: u64,
            #[serde(with = $with)]
            splits: Splits,
            reduce_count: u32,
            output: DfsPath,
            attempts_max: u32,
            slow_start_permille: u16,
            #[serde(deserialize_with = "list")]
            properties: BTreeMap<String, String>,
            #[serde(with = "sizing")]
            sizing: Option<ReduceSizing>,
            #[serde(with = "rounds")]
            rounds: Option<RoundsSpec>,
        }

        mod $splits {
            use protocol::jobs::{Part, SplitTable, Splits, TableRow};
            use protocol::short_paths::ShortPath;
            use serde::de::Error;
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            use crate::core::stored::{list, places};

            #[derive(Serialize, Deserialize)]
            #[serde(remote = "SplitTable")]
            struct TableForm {
                #[serde(with = $paths)]
                paths: Vec<ShortPath>,
                #[serde(deserialize_with = "list")]
                names: Vec<String>,
                #[serde(with = "crate::core::stored::rows")]
                rows: Vec<TableRow>,
                #[serde(deserialize_with = "places")]
                hosts: Vec<u32>,
                #[serde(deserialize_with = "places")]
                racks: Vec<u32>,
                #[serde(with = "crate::core::stored::table_parts")]
                parts: Vec<Part>,
            }

            pub(crate) fn serialize<S: Serializer>(
                all: &Splits,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                TableForm::serialize(&SplitTable::from(all.clone()), serializer)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Splits, D::Error> {
                Splits::try_from(TableForm::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
    )*};
}

with_table! {
    /// A job as submitted, in records from before paths were shortened.
    AcceptedForm, table as "table", paths as "crate::core::stored::whole_paths";
    /// A job as submitted.
    AdmittedForm, short_table as "short_table", paths as "crate::core::stored::paths";
}

/// Paths as they are, as records had them before they were shortened.
mod whole_paths {
    use protocol::DfsPath;
    use protocol::short_paths::{self, ShortPath};
    use serde::{Deserializer, Serialize, Serializer, ser};

    use crate::core::stored::list;

    pub(crate) fn serialize<S: Serializer>(
        short: &[ShortPath],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let paths = short_paths::lengthen(short.to_vec()).map_err(ser::Error::custom)?;
        paths.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<ShortPath>, D::Error> {
        let paths: Vec<DfsPath> = list(deserializer)?;
        Ok(short_paths::shorten(&paths))
    }
}

/// Sums by group and name.
pub(super) mod counters {
    use protocol::jobs::Counters;
    use serde::{Deserializer, Serialize, Serializer};

    use crate::core::stored::list;

    pub(crate) fn serialize<S: Serializer>(
        Counters(groups): &Counters,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        groups.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Counters, D::Error> {
        list(deserializer).map(Counters)
    }
}
