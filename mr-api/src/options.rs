//! Job options and properties, with Hadoop's names where Hadoop has them.

use std::str::FromStr;

use shuffle::Codec;

use crate::args::Properties;
use crate::cache::SideFile;
use crate::error::Error;
use crate::splits::SplitLimits;

/// What the command line says about running the job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// `--local`, perhaps with a number of threads.
    pub(crate) local: Option<Option<usize>>,
    pub(crate) reducers: Option<u32>,
    pub(crate) name: Option<String>,
    pub(crate) namenode: Option<String>,
    /// `-fs` of a streaming job.
    pub(crate) file_system: Option<String>,
    pub(crate) jobtracker: Option<String>,
    pub(crate) quiet: bool,
    pub(crate) json: bool,
    pub(crate) properties: Properties,
    pub(crate) side_files: Vec<SideFile>,
}

pub(crate) const REDUCES: &str = "mapreduce.job.reduces";
pub(crate) const SORT_MB: &str = "mapreduce.task.io.sort.mb";
/// Whether map output is compressed.
pub(crate) const MAP_COMPRESS: &str = "mapreduce.map.output.compress";
pub(crate) const SORT_FACTOR: &str = "mapreduce.task.io.sort.factor";
pub(crate) const SPLIT_MIN: &str = "mapreduce.input.fileinputformat.split.minsize";
pub(crate) const SPLIT_MAX: &str = "mapreduce.input.fileinputformat.split.maxsize";
pub(crate) const MAP_ATTEMPTS: &str = "mapreduce.map.maxattempts";
pub(crate) const REDUCE_ATTEMPTS: &str = "mapreduce.reduce.maxattempts";
/// The file system of plain paths.
pub(crate) const DEFAULT_FS: &str = "fs.defaultFS";
pub(crate) const JOB_NAME: &str = "mapreduce.job.name";
/// Separates key and value in key-value text.
pub(crate) const KEY_VALUE_SEPARATOR: &str =
    "mapreduce.input.keyvaluelinerecordreader.key.value.separator";
pub(crate) const SLOW_START: &str = "mapreduce.job.reduce.slowstart.completedmaps";

/// Records that a map may leave out because attempts ended in them.
pub(crate) const SKIP_MAX: &str = "mapreduce.map.skip.maxrecords";
/// `false`: the script of a streaming job counts the records it is done with.
pub(crate) const SKIP_AUTO_COUNT: &str = "mapreduce.map.skip.proc-count.auto-incr";

/// Former names of properties and the present ones.
pub(crate) const ALIASES: [(&str, &str); 31] = [
    ("fs.default.name", DEFAULT_FS),
    ("mapred.skip.map.max.skip.records", SKIP_MAX),
    ("mapred.skip.map.auto.incr.proc.count", SKIP_AUTO_COUNT),
    ("mapred.skip.attempts.to.start.skipping", "mapreduce.task.skip.start.attempts"),
    ("mapred.compress.map.output", MAP_COMPRESS),
    ("mapred.output.compression.type", crate::sequence_out::TYPE_PROPERTY),
    ("mapred.output.compress", crate::output::COMPRESS_PROPERTY),
    ("mapred.output.compression.codec", crate::output::CODEC_PROPERTY),
    ("mapred.reduce.tasks", REDUCES),
    ("mapred.job.name", JOB_NAME),
    ("io.sort.mb", SORT_MB),
    ("io.sort.factor", SORT_FACTOR),
    ("mapred.min.split.size", SPLIT_MIN),
    ("mapred.max.split.size", SPLIT_MAX),
    ("mapred.map.max.attempts", MAP_ATTEMPTS),
    ("mapred.reduce.max.attempts", REDUCE_ATTEMPTS),
    ("mapred.reduce.slowstart.completed.maps", SLOW_START),
    ("mapred.textoutputformat.separator", crate::output::SEPARATOR_PROPERTY),
    ("mapred.map.tasks", "mapreduce.job.maps"),
    ("mapred.partitioner.class", "mapreduce.job.partitioner.class"),
    ("mapred.output.key.comparator.class", "mapreduce.job.output.key.comparator.class"),
    ("mapred.text.key.comparator.options", "mapreduce.partition.keycomparator.options"),
    ("mapred.text.key.partitioner.options", "mapreduce.partition.keypartitioner.options"),
    ("map.output.key.field.separator", "mapreduce.map.output.key.field.separator"),
    ("key.value.separator.in.input.line", KEY_VALUE_SEPARATOR),
    ("mapred.job.queue.name", "mapreduce.job.queuename"),
    ("mapred.job.priority", "mapreduce.job.priority"),
    ("mapred.map.tasks.speculative.execution", "mapreduce.map.speculative"),
    ("mapred.reduce.tasks.speculative.execution", "mapreduce.reduce.speculative"),
    ("mapred.max.tracker.failures", "mapreduce.job.maxtaskfailures.per.tracker"),
    ("stream.map.output.field.seperator", "stream.map.output.field.separator"),
];

const KNOWN: [&str; 31] = [
    SKIP_MAX,
    SKIP_AUTO_COUNT,
    "mapreduce.task.skip.start.attempts",
    MAP_COMPRESS,
    crate::sequence_out::TYPE_PROPERTY,
    crate::output::COMPRESS_PROPERTY,
    crate::output::CODEC_PROPERTY,
    REDUCES,
    SORT_MB,
    SORT_FACTOR,
    SPLIT_MIN,
    SPLIT_MAX,
    MAP_ATTEMPTS,
    REDUCE_ATTEMPTS,
    JOB_NAME,
    SLOW_START,
    crate::output::SEPARATOR_PROPERTY,
    KEY_VALUE_SEPARATOR,
    "mapreduce.job.maps",
    "mapreduce.job.partitioner.class",
    "mapreduce.job.output.key.comparator.class",
    "mapreduce.partition.keycomparator.options",
    "mapreduce.partition.keypartitioner.options",
    "mapreduce.map.output.key.field.separator",
    "mapreduce.job.queuename",
    "mapreduce.job.priority",
    "mapreduce.job.running.map.limit",
    "mapreduce.job.running.reduce.limit",
    "mapreduce.map.speculative",
    "mapreduce.reduce.speculative",
    "mapreduce.job.maxtaskfailures.per.tracker",
];

/// Attempts per task before a job fails, as in Hadoop.
const ATTEMPTS_DEFAULT: u32 = 4;
/// Reduces start when this share of maps is done, in per mille, as in Hadoop (0.05).
const SLOW_START_DEFAULT: f64 = 0.05;
/// Segments merged at once: each costs 132 KiB, so a hundred fit any sort memory.
pub(crate) const MERGE_FACTOR_DEFAULT: usize = 100;

impl Options {
    /// `--reducers`, or the property.
    pub(crate) fn reducers(&self) -> Result<Option<u32>, Error> {
        match self.reducers {
            Some(count) => Ok(Some(count)),
            None => property(&self.properties, REDUCES),
        }
    }

    /// What names the file system, and how: `-fs`, or the property.
    pub(crate) fn file_system(&self) -> Option<(&'static str, &str)> {
        let option = self.file_system.as_deref().map(|text| ("-fs", text));
        option.or_else(|| Some((DEFAULT_FS, self.properties.get(DEFAULT_FS)?.as_str())))
    }

    /// `--name`, or the property.
    pub(crate) fn name(&self) -> Option<String> {
        self.name.clone().or_else(|| self.properties.get(JOB_NAME).cloned())
    }

    pub(crate) fn split_limits(&self) -> Result<SplitLimits, Error> {
        let default = SplitLimits::default();
        Ok(SplitLimits {
            min: property(&self.properties, SPLIT_MIN)?.unwrap_or(default.min),
            max: property(&self.properties, SPLIT_MAX)?.unwrap_or(default.max).max(1),
        })
    }

    pub(crate) fn attempts_max(&self) -> Result<u32, Error> {
        let attempts = match property(&self.properties, MAP_ATTEMPTS)? {
            Some(attempts) => Some(attempts),
            None => property(&self.properties, REDUCE_ATTEMPTS)?,
        };
        Ok(attempts.unwrap_or(ATTEMPTS_DEFAULT).max(1))
    }

    pub(crate) fn slow_start_permille(&self) -> Result<u16, Error> {
        let share: f64 = property(&self.properties, SLOW_START)?.unwrap_or(SLOW_START_DEFAULT);
        Ok((share.clamp(0.0, 1.0) * 1000.0) as u16)
    }

    /// A warning for each property that looks like one of Hadoop's but is not supported.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let unknown =
            |name: &&String| name.starts_with("mapreduce.") && !KNOWN.contains(&name.as_str());
        self.properties
            .keys()
            .filter(unknown)
            .map(|name| {
                let nearest = KNOWN.iter().min_by_key(|known| distance(known, name));
                format!(
                    "property {name} is not used; the nearest that is: {}",
                    nearest.unwrap_or(&"")
                )
            })
            .collect()
    }
}

/// `mapreduce.task.io.sort.mb` in bytes.
pub(crate) fn sort_bytes(properties: &Properties) -> Result<Option<usize>, Error> {
    let megabytes: Option<usize> = property(properties, SORT_MB)?;
    Ok(megabytes.map(|megabytes| megabytes.saturating_mul(1 << 20)))
}

/// `mapreduce.task.io.sort.factor`.
pub(crate) fn merge_factor(properties: &Properties) -> Result<usize, Error> {
    Ok(property(properties, SORT_FACTOR)?.unwrap_or(MERGE_FACTOR_DEFAULT).max(2))
}

/// How map output is stored: lz4, unless `mapreduce.map.output.compress` is `false`.
pub(crate) fn map_codec(properties: &Properties) -> Result<Codec, Error> {
    let compress = property(properties, MAP_COMPRESS)?.unwrap_or(true);
    Ok(if compress { Codec::Lz4 } else { Codec::None })
}

/// `dfs.replication`, for output files.
pub(crate) fn replication(properties: &Properties) -> Result<Option<u16>, Error> {
    property(properties, crate::output::REPLICATION_PROPERTY)
}

/// Takes `NAME=VALUE` in.
pub(crate) fn set_property(properties: &mut Properties, text: &str) -> Result<(), Error> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            let present = ALIASES.iter().find(|(former, _)| *former == name);
            let name = present.map_or(name, |(_, present)| present);
            properties.insert(name.to_owned(), value.to_owned());
            Ok(())
        }
        _ => Err(Error::usage(format!("-D takes NAME=VALUE, not `{text}`"))),
    }
}

/// True if the script of a streaming job counts the records it is done with, so that bad ones can be told and left out.
pub(crate) fn script_counts(context: &crate::context::Context) -> bool {
    let is = |name, value: fn(&str) -> bool| {
        context.property(name).is_some_and(|text| value(text.trim()))
    };
    is(SKIP_MAX, |text| text != "0") && is(SKIP_AUTO_COUNT, |text| text == "false")
}

fn property<T: FromStr>(properties: &Properties, name: &str) -> Result<Option<T>, Error> {
    let Some(text) = properties.get(name) else { return Ok(None) };
    let value = text.trim().parse();
    value
        .map(Some)
        .map_err(|_| Error::usage(format!("property {name}: `{text}` is no value it takes")))
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_properties_are_pointed_out() {
        let mut options = Options::default();
        for text in ["mapreduce.job.reducers=1", "my.own=2", "mapreduce.job.name=x"] {
            set_property(&mut options.properties, text).unwrap();
        }
        let warnings = options.warnings();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].ends_with("mapreduce.job.reduces"), "{warnings:?}");
    }

    #[test]
    fn values_are_checked() {
        let mut options = Options::default();
        set_property(&mut options.properties, "mapreduce.task.io.sort.mb=64").unwrap();
        set_property(&mut options.properties, "mapreduce.map.maxattempts=x").unwrap();
        assert_eq!(sort_bytes(&options.properties).unwrap(), Some(64 << 20));
        assert!(options.attempts_max().is_err());
        assert_eq!(options.slow_start_permille().unwrap(), 50);
    }
}
