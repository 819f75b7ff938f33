//! The job options of a command line, with the properties of [`protocol::property`].

use std::collections::BTreeSet;

use client::dfs::CreateOptions;
use mr_formats::packing::Packing;
use mr_formats::sequence::SEED_PROPERTY;
use mr_formats::splits::SplitLimits;
use mr_model::Error;
use mr_model::runner::{JobSettings, SideFile};
use protocol::jobs::SPLIT_PARTS_MAX;
use protocol::property::{self, Key, Properties, Scope, Value, Verdict, keys};
use shuffle::Codec;

use super::progress::Voice;

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
    pub(crate) voice: Voice,
    pub(crate) json: bool,
    /// The driver ends when its job is submitted.
    pub(crate) detached: bool,
    pub(crate) properties: Properties,
    /// Names of properties that come from files, which others share.
    pub(crate) defaults: BTreeSet<String>,
    pub(crate) side_files: Vec<SideFile>,
    /// What whoever parsed the command line has to say of it.
    pub(crate) warnings: Vec<String>,
}

/// Attempts per task before a job fails, as in Hadoop.
pub(crate) const ATTEMPTS_DEFAULT: u32 = 4;
/// Reduces start when this share of maps is done, as in Hadoop.
const SLOW_START_DEFAULT: f64 = 0.05;
/// Segments merged at once: each costs 132 KiB, so a hundred fit any sort memory.
pub(crate) const MERGE_FACTOR_DEFAULT: usize = 100;

impl Options {
    /// `--reducers`, or the property.
    pub(crate) fn reducers(&self) -> Result<Option<u32>, Error> {
        match self.reducers {
            Some(count) => Ok(Some(count)),
            None => self.value(keys::REDUCES),
        }
    }

    /// The file system's name and the option that gave it: `-fs`, or the property.
    pub(crate) fn file_system(&self) -> Option<(&'static str, &str)> {
        let option = self.file_system.as_deref().map(|text| ("-fs", text));
        let key = keys::DEFAULT_FS.name();
        option.or_else(|| Some((key, self.properties.get(key)?.as_str())))
    }

    /// `--name`, or the property.
    pub(crate) fn name(&self) -> Result<Option<String>, Error> {
        match &self.name {
            Some(name) => Ok(Some(name.clone())),
            None => self.value(keys::JOB_NAME),
        }
    }

    pub(crate) fn split_limits(&self) -> Result<SplitLimits, Error> {
        let default = SplitLimits::default();
        Ok(SplitLimits {
            min: self.value(keys::SPLIT_MIN)?.map_or(default.min, |size| size.0),
            max: self.value(keys::SPLIT_MAX)?.map_or(default.max, |size| size.0).max(1),
        })
    }

    /// How small files share maps on so many slots; `split_bytes` is the most of a split.
    pub(crate) fn packing(&self, slots: u32, split_bytes: u64) -> Result<Packing, Error> {
        let wanted =
            self.value(keys::FILES_PER_MAP)?.map_or(SPLIT_PARTS_MAX, |most| most.0 as usize);
        Ok(Packing { slots, bytes_max: split_bytes, files_max: wanted.min(SPLIT_PARTS_MAX) })
    }

    pub(crate) fn slow_start_permille(&self) -> Result<u16, Error> {
        let share = self.value(keys::SLOW_START)?.map_or(SLOW_START_DEFAULT, |share| share.0);
        Ok((share * 1000.0) as u16)
    }

    /// Refuses a job that would have more maps than allowed.
    pub(crate) fn check_map_count(&self, count: usize) -> Result<(), Error> {
        match self.value(keys::MAPS_MAX)?.and_then(|bound| bound.0) {
            Some(most) if count > most as usize => Err(Error::TooManyMaps { count, most }),
            _ => Ok(()),
        }
    }

    /// These options with the properties that the author gave a job; those of the command line win.
    pub(crate) fn of_job(&self, settings: &JobSettings) -> Options {
        let mut options = self.clone();
        for (name, value) in &settings.properties {
            options.properties.entry(name.clone()).or_insert_with(|| value.clone());
        }
        options
    }

    /// The properties of a job that is about to run, with what is chosen once for all its attempts.
    pub(crate) fn for_run(&self) -> Properties {
        let mut properties = self.properties.clone();
        let seed = || format!("{:032x}", rand::random::<u128>());
        properties.entry(SEED_PROPERTY.to_owned()).or_insert_with(seed);
        properties
    }

    /// Sets the property of `-D NAME=VALUE`.
    ///
    /// # Errors
    /// The text has another form.
    pub(crate) fn set(&mut self, text: &str) -> Result<(), Error> {
        let (name, value) = named_value("-D", text)?;
        self.defaults.remove(name);
        self.properties.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// Sets the property of `--default=NAME=VALUE`, unless `-D` does.
    ///
    /// # Errors
    /// The text has another form.
    pub(crate) fn set_default(&mut self, text: &str) -> Result<(), Error> {
        let (name, value) = named_value("--default", text)?;
        if self.defaults.contains(name) || !self.properties.contains_key(name) {
            self.defaults.insert(name.to_owned());
            self.properties.insert(name.to_owned(), value.to_owned());
        }
        Ok(())
    }

    /// The properties that somebody gave this job, and not files that others share.
    pub(crate) fn given(&self) -> Properties {
        let mut given = self.properties.clone();
        given.retain(|name, _| !self.defaults.contains(name));
        given
    }

    /// The value of a property, if it is set.
    pub(crate) fn value<T: Value>(&self, key: Key<T>) -> Result<Option<T>, Error> {
        Ok(key.get(&self.properties)?)
    }

    /// Refuses unsupported properties and values they do not accept; returns warnings about the others.
    pub(crate) fn check(&self, scope: Scope) -> Result<Vec<String>, Error> {
        let mut warnings = Vec::new();
        for (name, value) in &self.properties {
            match property::judge(name, value, scope) {
                Verdict::Fine => {}
                Verdict::Warning(text) => warnings.push(text),
                Verdict::Refusal(text) => return Err(Error::usage(text)),
            }
        }
        Ok(warnings)
    }
}

/// The memory that maps sort in.
pub(crate) fn sort_bytes(properties: &Properties) -> Result<Option<usize>, Error> {
    Ok(keys::SORT_MB.get(properties)?.map(|megabytes| megabytes.bytes()))
}

/// Runs that are merged at once.
pub(crate) fn merge_factor(properties: &Properties) -> Result<usize, Error> {
    let factor = keys::SORT_FACTOR.get(properties)?;
    Ok(factor.map_or(MERGE_FACTOR_DEFAULT, |factor| factor.0 as usize))
}

/// Sets what a job does not say itself for a cluster whose workers are all on one machine: map output that does not travel costs more to compress than to
/// read.
///
/// # Errors
/// The property has another kind of value.
pub(crate) fn stay_on_one_machine(properties: &mut Properties) -> Result<(), Error> {
    if keys::MAP_COMPRESS.get(properties)?.is_none() {
        keys::MAP_COMPRESS.set(properties, "false");
    }
    Ok(())
}

/// How map output is stored: lz4, unless compression is off.
pub(crate) fn map_codec(properties: &Properties) -> Result<Codec, Error> {
    let compress = keys::MAP_COMPRESS.get(properties)?.unwrap_or(true);
    Ok(if compress { Codec::Lz4 } else { Codec::None })
}

/// `NAME=VALUE`, with the current name of the property.
fn named_value<'a>(option: &str, text: &'a str) -> Result<(&'a str, &'a str), Error> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((property::present_name(name.trim()), value))
        }
        _ => Err(Error::usage(format!("{option} takes NAME=VALUE, not `{text}`"))),
    }
}

/// True if a streaming job's script counts the records it has finished, so that bad ones can be identified and skipped.
pub(crate) fn script_counts(properties: &Properties) -> Result<bool, Error> {
    let skips = keys::SKIP_MAX.get(properties)?.is_some_and(|most| most.0 > 0);
    Ok(skips && keys::SKIP_AUTO_COUNT.get(properties)? == Some(false))
}

/// How an attempt makes a file of the job's output: with the umask, the replication and the block size that the job asks for.
pub(crate) fn output_file(properties: &Properties) -> Result<CreateOptions, Error> {
    Ok(CreateOptions {
        overwrite: true,
        replication: keys::REPLICATION.get(properties)?.map(|count| count.0),
        block_size: keys::BLOCK_SIZE.get(properties)?.map(|size| size.0),
        ..CreateOptions::masked(keys::UMASK.get(properties)?.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_has_the_mode_that_a_umask_leaves_unless_a_default_list_decides() {
        let made = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let options = output_file(&pairs.collect()).unwrap();
            (options.mode, options.unmasked, options.replication)
        };
        assert_eq!(made(&[]), (0o644, Some(0o666), None));
        let set = [("fs.permissions.umask-mode", "u=rwx,g=,o="), ("dfs.replication", "2")];
        assert_eq!(made(&set), (0o600, Some(0o666), Some(2)));
        assert_eq!(property::present_name("dfs.umaskmode"), keys::UMASK.name());
    }

    fn options(texts: &[&str]) -> Options {
        let mut options = Options::default();
        texts.iter().for_each(|text| options.set(text).unwrap());
        options
    }

    #[test]
    fn what_is_not_honoured_is_said() {
        let options = options(&["mapreduce.job.reducers=1", "my.own=2", "mapred.job.name=x"]);
        let warnings = options.check(Scope::Jobs).unwrap();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].ends_with("did you mean mapreduce.job.reduces?"), "{warnings:?}");
        assert_eq!(options.name().unwrap().as_deref(), Some("x"));
    }

    #[test]
    fn a_default_gives_way_wherever_it_stands_and_is_not_given() {
        let mut options = options(&["io.sort.mb=64"]);
        for text in ["mapreduce.task.io.sort.mb=1", "my.own=1", "my.other=1", "my.own=2"] {
            options.set_default(text).unwrap();
        }
        options.set("my.other=3").unwrap();
        let set = |properties: &Properties| {
            properties.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        let sort = "mapreduce.task.io.sort.mb=64";
        assert_eq!(set(&options.properties), [sort, "my.other=3", "my.own=2"]);
        assert_eq!(set(&options.given()), [sort, "my.other=3"]);
    }

    #[test]
    fn values_are_checked() {
        let good = options(&["io.sort.mb=64"]);
        assert_eq!(sort_bytes(&good.properties).unwrap(), Some(64 << 20));
        assert_eq!(good.slow_start_permille().unwrap(), 50);
        for (text, part) in [
            ("mapreduce.map.maxattempts=x", "`x` is not a whole number from 1"),
            ("mapreduce.map.failures.maxpercent=3", "cannot be had"),
        ] {
            let error = options(&[text]).check(Scope::Jobs).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        for (most, allowed) in [("mapreduce.job.max.map=3", 3), ("mapreduce.job.max.map=-1", 1000)]
        {
            options(&[most]).check_map_count(allowed).unwrap();
        }
        assert!(options(&["mapreduce.job.max.map=0"]).check_map_count(1).is_err());
        let error = options(&["mapreduce.job.max.map=3"]).check_map_count(4).unwrap_err();
        assert!(error.to_string().contains("would have 4 maps, and may have 3"), "{error}");
    }
}
