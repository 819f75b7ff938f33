//! Limits on the counters of tasks: how many there may be, and how long their names.
//!
//! Hadoop has them too (`mapreduce.job.counters.max` and related properties). Every counter is kept in memory for each task and written to the journal when the
//! task ends. Without limits, a job that names counters after its records would bring the JobTracker down. A job that exceeds a limit fails with a message;
//! nothing is cut off silently.
//!
//! Invariants: [`bounded`] refuses while it decodes, so a message takes no more memory than the limits allow; a sum stays at [`VALUE_MAX`] instead of starting
//! again at 0.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::wire::at_most;

/// Most different counters that a job's own code may name; a hundred times Hadoop's limit.
pub const COUNTERS_MAX: usize = 10_000;
/// Most different counters that the engine adds to those.
pub const ENGINE_COUNTERS_MAX: usize = 200;
/// Most names of groups and counters to decode: each counter may have a group of its own.
const NAMES_MAX: usize = 2 * (COUNTERS_MAX + ENGINE_COUNTERS_MAX);
/// Most groups of counters that one message has room for. A job may have fewer; that is checked where they are counted.
pub const COUNTER_GROUPS_SENT_MAX: usize = 100_000;
/// Longest name of a counter or of a group, bytes; Hadoop's limit for groups.
pub const NAME_BYTES_MAX: usize = 128;

/// Group of the counters that only this engine has.
pub(super) const ENGINE_GROUP: &str = "Engine";
/// Largest value of a counter: Java's `long`, which Hadoop's clients read.
pub const VALUE_MAX: u64 = i64::MAX.cast_unsigned();
/// Group of the JobTracker's own counters, under Hadoop's class name.
pub const JOB_GROUP: &str = "org.apache.hadoop.mapreduce.JobCounter";
/// Group of the bytes that tasks read and write in the cluster's file system, under Hadoop's class name.
pub const FILE_SYSTEM_GROUP: &str = "org.apache.hadoop.mapreduce.FileSystemCounter";
/// Groups in which only the JobTracker counts, under all names that clients know them by.
const GROUPS_OF_JOBS: [&str; 2] = [JOB_GROUP, "Job Counters"];
/// Groups in which the engine counts, and no code of a job's own.
const GROUPS_OF_TASKS: [&str; 7] = [
    "org.apache.hadoop.mapreduce.TaskCounter",
    "Map-Reduce Framework",
    FILE_SYSTEM_GROUP,
    "File System Counters",
    "org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter",
    "org.apache.hadoop.mapreduce.lib.output.FileOutputFormatCounter",
    ENGINE_GROUP,
];
/// The JobTracker's counters in a group where tasks count, too: launched and successful speculative attempts.
pub const COUNTERS_OF_JOBS: [(&str, &str); 2] =
    [(ENGINE_GROUP, "SPECULATIVE_LAUNCHED"), (ENGINE_GROUP, "SPECULATIVE_WON")];

/// Named sums, by group and name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counters(
    #[serde(deserialize_with = "at_most::<COUNTER_GROUPS_SENT_MAX, _, _>")]
    pub  BTreeMap<String, BTreeMap<String, u64>>,
);

/// Counters that exceed a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CountersError {
    /// Too many of them.
    #[error("Too many counters: a job has at most {COUNTERS_MAX} different ones")]
    TooMany,
    /// A name is too long.
    #[error("The name of a counter or group is longer than {NAME_BYTES_MAX} bytes: {start}…")]
    NameTooLong {
        /// How it begins.
        start: String,
    },
    /// Only the engine counts there.
    #[error("The engine counts in {group}: count in a group of your own")]
    Reserved {
        /// The group, with the counter's name where only that is the engine's.
        group: String,
    },
}

/// Checks the group of a counter of the job's own code.
///
/// # Errors
/// [`CountersError::Reserved`].
pub fn check_group(group: &str) -> Result<(), CountersError> {
    match GROUPS_OF_JOBS.contains(&group) || GROUPS_OF_TASKS.contains(&group) {
        true => Err(CountersError::Reserved { group: group.to_owned() }),
        false => Ok(()),
    }
}

/// Checks the name of a counter or group.
///
/// # Errors
/// [`CountersError::NameTooLong`].
pub fn check_name(name: &str) -> Result<(), CountersError> {
    if name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    let start = name.chars().filter(|letter| !letter.is_control()).take(40).collect();
    Err(CountersError::NameTooLong { start })
}

impl<'a> FromIterator<(&'a str, &'a str, u64)> for Counters {
    /// Adds up groups, names and amounts.
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str, u64)>>(amounts: I) -> Self {
        let mut counters = Counters::default();
        amounts.into_iter().for_each(|(group, name, amount)| counters.add(group, name, amount));
        counters
    }
}

impl Counters {
    /// Adds `amount`, up to [`VALUE_MAX`].
    pub fn add(&mut self, group: &str, name: &str, amount: u64) {
        if !self.0.contains_key(group) {
            self.0.insert(group.to_owned(), BTreeMap::new());
        }
        let names = self.0.get_mut(group).expect("just inserted");
        match names.get_mut(name) {
            Some(value) => *value = value.saturating_add(amount).min(VALUE_MAX),
            None => {
                names.insert(name.to_owned(), amount.min(VALUE_MAX));
            }
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Counters) {
        for (group, names) in &other.0 {
            for (name, amount) in names {
                self.add(group, name, *amount);
            }
        }
    }

    /// One value; 0 if it was never counted.
    pub fn value(&self, group: &str, name: &str) -> u64 {
        self.0.get(group).and_then(|names| names.get(name)).copied().unwrap_or(0)
    }

    /// The number of counters in all groups.
    pub fn count(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// Checks numbers and names.
    ///
    /// # Errors
    /// [`CountersError`].
    pub fn check(&self) -> Result<(), CountersError> {
        if self.count() > COUNTERS_MAX + ENGINE_COUNTERS_MAX {
            return Err(CountersError::TooMany);
        }
        self.0.iter().try_for_each(|(group, names)| {
            check_name(group)?;
            names.keys().try_for_each(|name| check_name(name))
        })
    }

    /// Checks that a task counts only where tasks do.
    ///
    /// # Errors
    /// [`CountersError::Reserved`].
    pub fn check_of_task(&self) -> Result<(), CountersError> {
        let reserved = GROUPS_OF_JOBS.iter().find(|group| self.0.contains_key(**group));
        let is_there = |(group, name): &&(&str, &str)| {
            self.0.get(*group).is_some_and(|names| names.contains_key(*name))
        };
        let reserved = reserved.map(|group| (*group).to_owned());
        let counter = || COUNTERS_OF_JOBS.iter().find(is_there).map(|(a, b)| format!("{a} {b}"));
        match reserved.or_else(counter) {
            Some(group) => Err(CountersError::Reserved { group }),
            None => Ok(()),
        }
    }
}

/// Decodes counters of a message, and stops at the first that exceeds a limit. For `#[serde(deserialize_with)]`.
///
/// # Errors
/// The decoder's error, or [`CountersError`] as its text.
pub fn bounded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Counters, D::Error> {
    struct Newtype;

    impl<'de> Visitor<'de> for Newtype {
        type Value = Counters;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("counters")
        }

        fn visit_newtype_struct<D: Deserializer<'de>>(
            self,
            deserializer: D,
        ) -> Result<Counters, D::Error> {
            deserializer.deserialize_map(Groups)
        }
    }

    deserializer.deserialize_newtype_struct("Counters", Newtype)
}

struct Groups;

impl<'de> Visitor<'de> for Groups {
    type Value = Counters;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counters by group and name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut groups: A) -> Result<Counters, A::Error> {
        let mut counters = Counters::default();
        let mut left = NAMES_MAX;
        while let Some(Name(group)) = groups.next_key()? {
            take_one(&mut left)?;
            groups.next_value_seed(Names {
                group: &group,
                left: &mut left,
                counters: &mut counters,
            })?;
        }
        counters.check().map_err(A::Error::custom)?;
        Ok(counters)
    }
}

/// The counters of one group.
struct Names<'a> {
    group: &'a str,
    /// How many more names may follow.
    left: &'a mut usize,
    counters: &'a mut Counters,
}

impl<'de> DeserializeSeed<'de> for Names<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Names<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counters by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut names: A) -> Result<(), A::Error> {
        while let Some((Name(name), value)) = names.next_entry::<Name, u64>()? {
            take_one(self.left)?;
            self.counters.add(self.group, &name, value);
        }
        Ok(())
    }
}

fn take_one<E: serde::de::Error>(left: &mut usize) -> Result<(), E> {
    *left = left.checked_sub(1).ok_or_else(|| E::custom(CountersError::TooMany))?;
    Ok(())
}

/// A name that is not too long.
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Name, E> {
                check_name(text).map_err(E::custom)?;
                Ok(Name(text.to_owned()))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    #[derive(Serialize, Deserialize)]
    struct Message {
        #[serde(deserialize_with = "bounded")]
        counters: Counters,
    }

    fn named(count: usize) -> Counters {
        let mut counters = Counters::default();
        (0..count).for_each(|index| counters.add("g", &index.to_string(), index as u64));
        counters
    }

    fn decoded(counters: &Counters) -> Option<Counters> {
        let bytes = wire::encode(&Message { counters: counters.clone() });
        wire::decode::<Message>(&bytes, "message").ok().map(|message| message.counters)
    }

    #[test]
    fn what_is_within_the_bounds_comes_out_as_it_went_in() {
        let longest = "x".repeat(NAME_BYTES_MAX);
        for counters in [
            Counters::default(),
            Counters::from_iter([("a", "x", 1), ("b", "x", VALUE_MAX), (&longest, &longest, 0)]),
            named(COUNTERS_MAX + ENGINE_COUNTERS_MAX),
        ] {
            assert_eq!(counters.check(), Ok(()));
            assert_eq!(decoded(&counters), Some(counters));
        }
    }

    #[test]
    fn sums_stay_at_the_largest_value() {
        let mut counters = Counters::from_iter([("a", "x", u64::MAX)]);
        assert_eq!(counters.value("a", "x"), VALUE_MAX);
        counters.add("a", "x", 1);
        assert_eq!(counters.value("a", "x"), VALUE_MAX);
        // As a hostile task sends it.
        let sent = Counters([("a".to_owned(), [("x".to_owned(), u64::MAX)].into())].into());
        assert_eq!(decoded(&sent), Some(counters));
    }

    #[test]
    fn tasks_count_where_tasks_do() {
        for (group, of_task, of_user) in [
            ("Job Counters", false, false),
            ("org.apache.hadoop.mapreduce.JobCounter", false, false),
            ("org.apache.hadoop.mapreduce.TaskCounter", true, false),
            ("Engine", true, false),
            ("My Group", true, true),
        ] {
            let counters = Counters::from_iter([(group, "x", 1)]);
            assert_eq!(counters.check_of_task().is_ok(), of_task, "{group}");
            assert_eq!(check_group(group).is_ok(), of_user, "{group}");
        }
        let speculative = Counters::from_iter([("Engine", "SPECULATIVE_WON", 1)]);
        let error = speculative.check_of_task().unwrap_err();
        assert!(error.to_string().contains("Engine SPECULATIVE_WON"), "{error}");
    }

    #[test]
    fn what_is_beyond_them_is_refused() {
        let longer = "x".repeat(NAME_BYTES_MAX + 1);
        let many = named(COUNTERS_MAX + ENGINE_COUNTERS_MAX + 1);
        assert_eq!(many.check(), Err(CountersError::TooMany));
        assert_eq!(decoded(&many), None);
        for counters in
            [Counters::from_iter([("g", &*longer, 1)]), Counters::from_iter([(&*longer, "c", 1)])]
        {
            let error = counters.check().unwrap_err();
            assert!(matches!(error, CountersError::NameTooLong { .. }), "{error}");
            assert_eq!(decoded(&counters), None);
        }
        let mut groups = Counters::default();
        (0..=NAMES_MAX).for_each(|index| {
            groups.0.insert(index.to_string(), BTreeMap::new());
        });
        assert_eq!(decoded(&groups), None, "groups without counters");
    }
}
