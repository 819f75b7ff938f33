//! The driver: from a command line to a job.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use client::ClientConfig;
use client::dfs::{CreateOptions, DfsClient};
use client::interrupt::{self, Unfinished};
use mr_api::built_in::{self, Settings};
use protocol::address::home;
use protocol::jobs::Counters;
use protocol::{DfsPath, JobId};

use crate::bundles::bundles;
use crate::commit::abandon;
use crate::difference::Sync;
use crate::error::{Error, Result};
use crate::job::plan;
use crate::keep;
use crate::listing::{Filters, Target, Walk, check_way, entries, placed, sources};
use crate::options::{Options, parse};
use crate::order::{Entry, FILE_MODE, Order};
use crate::places::{Creation, Location, Place, Places, Tokens, file, tokens_of_environment};
use crate::spared::{LOG, STAGING, STAGING_OF_MACHINE, Spared};

/// How `distcp` is used.
pub const USAGE: &str = "\
Usage: distcp [OPTIONS] SRC... DST
       distcp [OPTIONS] -f LISTFILE DST

Paths are of the cluster (plain, hdfs:///…), of this machine (file:///…) or of another cluster (webhdfs://host:port/… or, encrypted, swebhdfs://host:port/…).

  -update                 copy what is missing or differs in length or checksum
  -overwrite              copy everything
  -delete                 with one of these: delete what the sources do not have, except what -filters excludes
  -append                 with -update: write at the end of files that are the beginning of their source
  -diff FROM TO           with -update: copy what changed between two snapshots of the source
  -p[rbugpcaxt]           keep replication, block size, user, group, permission, ACL, XAttrs, times
  -i                      go on when a source cannot be read
  -m N                    maps (20)
  -strategy uniformsize|dynamic
                          one bundle for each map, or several, taken as maps get free
  -bandwidth MB           megabytes a second of each map
  -atomic [-tmp DIR]      the target appears when all is copied
  -f LISTFILE             sources, one a line
  -filters FILE           regular expressions; a path that one matches is left out
  -skipcrccheck           compare no checksums
  -direct                 write files in place, without a temporary name
  -log DIR [-v]           what was skipped and failed, with -v also what was copied: in a directory of DIR for each run
  -async                  do not wait for the job
  -updateRoot             with -update or -overwrite: keep attributes of the sources themselves, too
  -numListstatusThreads N threads that list
  -copybuffersize BYTES   bytes that are read at once
";

/// Most files of one directory that are looked for one by one: a listing tells of thousands in that time.
const LOOKS_MAX: usize = 16;
/// The word before an order in a command line.
const ORDER: &str = "--order";
/// The word before the job's output.
const OUTPUT: &str = "--output";
/// Filters and sources with `-delete`: an order is one word of a command line, and Linux takes words of up to 128 KiB.
const FILTERED_BYTES_MAX: usize = 96 << 10;
/// Of a home directory that does not exist yet.
const HOME_MODE: u16 = 0o755;
/// Only its owner can read it.
const DIRECTORY_MODE: u16 = 0o700;
/// Bundles for each map with `-strategy dynamic`.
const BUNDLES_PER_MAP: u32 = 4;

/// The cluster that a command is for.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// Of the client, with the secret.
    pub config: ClientConfig,
    /// True if a NameNode is configured.
    pub has_cluster: bool,
    /// For the job; `local` and `detached` are decided here.
    pub settings: Settings,
    /// Words with which a worker starts this program again.
    pub prefix: Vec<String>,
    /// If it is there, a signal ends a copy that runs in this process or is being prepared, and this hears what could not be undone.
    pub tell: Option<fn(&str)>,
}

/// How a copy ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its job; `None` if it ran in this process.
    pub job: Option<JobId>,
    /// Counters of the job so far.
    pub counters: Counters,
    /// Things that the user should know.
    pub warnings: Vec<String>,
}

/// Runs tasks in a process that a worker started with these words.
///
/// # Errors
/// [`Error`].
pub fn run_tasks(words: &[String]) -> Result<()> {
    let after = |name: &str| {
        let at = words.iter().position(|word| word == name);
        let value = at.and_then(|at| words.get(at + 1)).map(String::as_str);
        value.ok_or_else(|| Error::usage(format!("a task of distcp needs {name}")))
    };
    let order = Arc::new(Order::parse(after(ORDER)?)?);
    let output = after(OUTPUT)?;
    built_in::run_tasks(|| plan(&order, output, None)).map_err(Error::Job)
}

/// Copies what a command line says; `warn` gets what the user should know before that.
///
/// # Errors
/// [`Error`]; [`Error::exit_code`] is what the command ends with.
pub fn run(words: &[String], site: &Site, warn: &mut dyn FnMut(&str)) -> Result<Outcome> {
    let (options, warnings) = parse(words)?;
    warnings.iter().for_each(|warning| warn(warning));
    let cluster = match site.has_cluster {
        true => Some(DfsClient::connect(&site.config)?),
        false => None,
    };
    let user = match &cluster {
        Some(dfs) => dfs.user().to_owned(),
        None => sys::host::user_name(),
    };
    let tokens = tokens_of_environment();
    let creation = Creation::of(&site.settings).map_err(|error| Error::usage(error.to_string()))?;
    let places = Places::new(cluster.clone(), user.clone(), tokens.clone(), creation);
    let copy = Copy { options, cluster, user, tokens, places, creation, site };
    copy.run()
}

/// What a command line names, with the place of each.
struct Named {
    given: Vec<Location>,
    target: Location,
    /// In the place of the target: the directory in which an atomic copy is made.
    above: Option<Location>,
    log: Option<Location>,
}

/// A copy that is being prepared.
struct Copy<'a> {
    options: Options,
    cluster: Option<DfsClient>,
    user: String,
    tokens: Tokens,
    places: Places,
    creation: Creation,
    site: &'a Site,
}

impl Copy<'_> {
    fn run(self) -> Result<Outcome> {
        let Named { given, target, above, log } = self.named()?;
        let local = self.runs_here(&given, &target)?;
        check_log(log.as_ref(), local)?;
        let found = sources(&self.places, &given)?;
        let there = self.target(&target, &found)?;
        let mut used: Vec<&Place> = given.iter().map(|source| &source.place).collect();
        used.push(&target.place);
        keep::check(self.options.preserve, &used)?;
        let id = format!("{:016x}", rand_id());
        let staging = self.staging(&id, local)?;
        let mut spared = self.spared(&target, &staging, (above.as_ref(), log.as_ref()))?;
        if self.options.delete {
            spared.keep_sources(&target, &given);
        }
        let filter_text = self.filter_text()?;
        let filters = Filters::parse(&filter_text)?;
        let mut entries = match &self.options.diff {
            None => entries(&self.places, &found, there, &self.options, &filters)?,
            Some((from, to)) => {
                let (source, _) =
                    found.first().ok_or_else(|| Error::usage("-diff takes one source"))?;
                let files = |at: &Location| self.places.files(&at.place).map_err(file("reach", at));
                let (left, right) = (files(source)?, files(&target)?);
                let (source, target) = ((&*left, source), (&*right, &target));
                let lenient = self.options.ignore_failures;
                let walk = Walk { threads: 1, filters: &filters, lenient };
                Sync { source, target, from, to, id: &id, spared: &spared }.run(&walk)?
            }
        };
        self.check_ways(&target, &entries)?;
        let loads: Vec<u64> = entries.iter().map(|entry| entry.status.length).collect();
        let per_map = if self.options.dynamic { BUNDLES_PER_MAP } else { 1 };
        let bundles = bundles(&loads, self.options.maps.saturating_mul(per_map));
        let count = u32::try_from(bundles.len()).unwrap_or(u32::MAX);
        let staging = staging.path;
        let mut order = self.order(id, &staging, count, (&target, above, there, &entries));
        order.spared = spared;
        if order.delete && !filters.is_none() {
            order.filtered = (filter_text, placed(&found, there, &self.options));
            check_filtered(&order)?;
        }
        if order.keeps_what_was_there() && there != Target::Missing {
            self.note_what_is_there(&order.work, &mut entries)?;
        }
        let unfinished = self.watch(&order, &staging, local)?;
        let written = self.write_lists(&order, &entries, &bundles, local);
        // A job of the cluster goes on without this process.
        let _unfinished = unfinished.filter(|_| local);
        let ended = written.and_then(|()| self.submit(&order, (&staging, log), local));
        if ended.is_err() {
            // The failure of the job matters more.
            let _ = abandon(&order, &self.places);
        }
        if ended.is_err() || !self.options.detached {
            self.remove(&staging, local);
        }
        ended
    }

    /// Notes which files have a target already: it is left alone.
    fn note_what_is_there(&self, work: &Location, entries: &mut [Entry]) -> Result<()> {
        let files = self.places.files(&work.place).map_err(file("reach", work))?;
        let look = |at: &Location| files.status(&at.path).map_err(file("look for", at));
        let mut by_directory: BTreeMap<String, Vec<&mut Entry>> = BTreeMap::new();
        for entry in entries.iter_mut().filter(|entry| !entry.status.directory) {
            let directory = entry.relative.rsplit_once('/').map_or("", |(directory, _)| directory);
            by_directory.entry(directory.to_owned()).or_default().push(entry);
        }
        for (directory, copied) in by_directory {
            if copied.len() <= LOOKS_MAX {
                for entry in copied {
                    entry.was_there = look(&work.below(&entry.relative))?.is_some();
                }
                continue;
            }
            let at = work.below(&directory);
            if !look(&at)?.is_some_and(|found| found.directory) {
                continue;
            }
            let found = files.list(&at.path).map_err(file("list", &at))?;
            let names: HashSet<String> = found.into_iter().map(|status| status.name).collect();
            for entry in copied {
                let name = entry.relative.rsplit('/').next().unwrap_or_default();
                entry.was_there = names.contains(name);
            }
        }
        Ok(())
    }

    /// From now on a signal ends the copy, if the command wants that; until what this returns is dropped, it also deletes what the copy leaves.
    fn watch(&self, order: &Order, staging: &str, local: bool) -> Result<Option<Unfinished>> {
        let Some(tell) = self.site.tell else { return Ok(None) };
        interrupt::watch(tell).map_err(Error::Signals)?;
        let (order, places) = (order.clone(), self.places.clone());
        let (what, staging) = (format!("the copy to {}", order.work), staging.to_owned());
        let cluster = self.cluster.clone().filter(|_| !local);
        let undo = move || {
            if let Some(dfs) = cluster {
                // Nothing is copied yet.
                dfs.delete(&DfsPath::parse(&staging)?, true)?;
                return Ok(());
            }
            let lists = match fs::remove_dir_all(&staging) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
            abandon(&order, &places)?;
            Ok(lists?)
        };
        Ok(Some(Unfinished::new(what, Box::new(undo))))
    }

    /// Everything that the command line names, read once, before anything is done.
    fn named(&self) -> Result<Named> {
        let target = self.locate(&self.options.target)?;
        let above = match self.options.atomic {
            true => Some(self.above(&target)?),
            false => None,
        };
        let log = self.options.log.as_ref().map(|text| self.locate(text)).transpose()?;
        Ok(Named { given: self.given()?, target, above, log })
    }

    /// Where an atomic copy is made: what cannot be renamed from there onto the target is refused.
    fn above(&self, target: &Location) -> Result<Location> {
        let Some(given) = &self.options.temporary else { return Ok(target.parent()) };
        let above = self.locate(given)?;
        let files = self.places.files(&target.place).map_err(file("reach", target))?;
        let is_one = above.place == target.place
            && files.can_rename(&above.path, &target.path).map_err(file("look for", &above))?;
        match is_one {
            true => Ok(above),
            false => Err(Error::usage(format!(
                "Work path {above} and target path {target} are in different file systems: -tmp names a directory from where the copy can be renamed"
            ))),
        }
    }

    fn locate(&self, text: &str) -> Result<Location> {
        let site = self.cluster.as_ref().map(DfsClient::site);
        Location::parse(text, site.as_ref(), &self.user)
    }

    /// The sources as they are typed, or as the list names them.
    fn given(&self) -> Result<Vec<Location>> {
        let Some(list) = &self.options.list_file else {
            return self.options.sources.iter().map(|text| self.locate(text)).collect();
        };
        let text = self.text_of(list)?;
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() {
            return Err(Error::EmptyList { list: list.clone() });
        }
        lines.into_iter().map(|line| self.locate(line)).collect()
    }

    /// The text of a file in any place.
    fn text_of(&self, path: &str) -> Result<String> {
        let at = self.locate(path)?;
        let files = self.places.files(&at.place).map_err(file("reach", &at))?;
        let mut text = String::new();
        let mut reader = files.open(&at.path, 0).map_err(file("open", &at))?;
        let own = |source| Error::Own { what: "read", path: at.to_string(), source };
        io::Read::read_to_string(&mut reader, &mut text).map_err(own)?;
        Ok(text)
    }

    /// `-filters` names a file of this machine, as in Hadoop.
    fn filter_text(&self) -> Result<String> {
        let Some(text) = &self.options.filters else { return Ok(String::new()) };
        let path = text.strip_prefix("file://").unwrap_or(text);
        if path.is_empty() {
            return Err(Error::EmptyPath);
        }
        let own = |source| Error::Own { what: "read", path: path.to_owned(), source };
        sys::fs::read_input(Path::new(path)).map_err(own)
    }

    /// Files of this machine are there for this process alone: the job then runs here.
    fn runs_here(&self, given: &[Location], target: &Location) -> Result<bool> {
        let places = given.iter().chain([target]).map(|at| &at.place);
        let is_local = places.clone().any(|place| *place == Place::Machine);
        if is_local && self.options.detached {
            return Err(Error::usage(
                "-async is not possible with file: paths: this process copies them",
            ));
        }
        if !is_local && self.cluster.is_none() {
            return Err(Error::Cluster(client::dfs::DfsError::NoNamenode));
        }
        Ok(is_local)
    }

    /// What is at the target, if that can be copied onto.
    fn target(
        &self,
        target: &Location,
        found: &[(Location, crate::places::Status)],
    ) -> Result<Target> {
        let files = self.places.files(&target.place).map_err(file("reach", target))?;
        let there = files.status(&target.path).map_err(file("look for", target))?;
        let text = || target.to_string();
        if self.options.atomic && there.is_some() {
            return Err(Error::AtomicTarget { target: text() });
        }
        match there {
            None => Ok(Target::Missing),
            Some(status) if status.directory => Ok(Target::Directory),
            Some(_) if found.len() > 1 => Err(Error::ManyToFile { target: text() }),
            Some(_) => match found.first() {
                Some((source, status)) if status.directory => {
                    Err(Error::DirectoryToFile { source_path: source.to_string(), target: text() })
                }
                _ => Ok(Target::File),
            },
        }
    }

    /// Refuses what no copy replaces, before anything is made. Only this machine has such things.
    fn check_ways(&self, target: &Location, entries: &[Entry]) -> Result<()> {
        let files = self.places.files(&target.place).map_err(file("reach", target))?;
        check_way(&*files, target, "")?;
        match target.place {
            Place::Machine => {
                entries.iter().try_for_each(|entry| check_way(&*files, target, &entry.relative))
            }
            Place::Cluster { .. } | Place::Web { .. } => Ok(()),
        }
    }

    /// Where lists are: in the user's home, or on this machine.
    fn staging(&self, id: &str, local: bool) -> Result<Location> {
        if local {
            let path = std::env::temp_dir().join(format!("{STAGING_OF_MACHINE}{id}"));
            let own =
                |source| Error::Own { what: "find", path: path.display().to_string(), source };
            let path = std::path::absolute(&path).map_err(own)?;
            let path = path.to_string_lossy().into_owned();
            return Ok(Location { place: Place::Machine, path });
        }
        let site = self.cluster.as_ref().map(DfsClient::site);
        let authority = site.map(|site| site.authority().to_owned()).unwrap_or_default();
        let path = format!("{}/{STAGING}/distcp-{id}", home(&self.user));
        Ok(Location { place: Place::Cluster { authority }, path })
    }

    /// What the last step leaves alone in the target. What this run has there is refused where it would be in the way.
    fn spared(
        &self,
        target: &Location,
        staging: &Location,
        (above, log): (Option<&Location>, Option<&Location>),
    ) -> Result<Spared> {
        if self.options.atomic {
            let made = [Some(staging), above, log].into_iter().flatten();
            if let Some(below) = made.into_iter().find(|made| made.is_within(target)) {
                let (target, below) = (target.to_string(), below.to_string());
                return Err(Error::BelowAtomicTarget { target, below });
            }
        }
        let files = self.places.files(&target.place).map_err(file("reach", target))?;
        let spared = Spared::of(&*files, target, staging, log)?;
        match (self.options.delete || self.options.diff.is_some()) && spared.has("") {
            true => Err(Error::SystemTarget { target: target.to_string() }),
            false => Ok(spared),
        }
    }

    fn order(
        &self,
        id: String,
        staging: &str,
        bundles: u32,
        (target, above, there, entries): (&Location, Option<Location>, Target, &[Entry]),
    ) -> Order {
        let options = &self.options;
        let (work, publish) = match above {
            None => (target.clone(), None),
            Some(above) => {
                let work = above.below(&format!("._WIP_{}.{id}", target.name()));
                (work, Some(target.path.clone()))
            }
        };
        // A single file is written beside itself, a tree within itself.
        let is_file = entries.iter().any(|it| it.relative.is_empty() && !it.status.directory);
        let beside = if is_file || there == Target::File { work.parent() } else { work.clone() };
        let temporary = (!options.direct).then(|| beside.below(&format!(".distcp.tmp.{id}")));
        Order {
            id,
            lists: format!("{staging}/lists"),
            bundles,
            work,
            publish,
            temporary,
            preserve: options.preserve,
            creation: self.creation,
            update: options.update,
            overwrite: options.overwrite,
            append: options.append,
            delete: options.delete,
            filtered: Default::default(),
            spared: Spared::default(),
            ignore_failures: options.ignore_failures,
            skip_crc: options.skip_crc,
            verbose: options.verbose,
            bandwidth: options.bandwidth,
            buffer_bytes: options.buffer_bytes,
            user: self.user.clone(),
        }
    }

    /// Writes what the tasks read.
    fn write_lists(
        &self,
        order: &Order,
        entries: &[Entry],
        bundles: &[Vec<usize>],
        local: bool,
    ) -> Result<()> {
        self.make_lists(&order.lists, local)?;
        let all: BTreeSet<usize> = (0..entries.len()).collect();
        self.write(&order.whole(), local, &mut |out| lines(out, entries, all.iter()))?;
        for (number, bundle) in bundles.iter().enumerate() {
            let path = order.bundle(number as u64);
            self.write(&path, local, &mut |out| lines(out, entries, bundle.iter()))?;
        }
        self.write(&order.tokens(), local, &mut |out| {
            serde_json::to_writer(out, &self.tokens).map_err(io::Error::from)
        })
    }

    fn make_lists(&self, directory: &str, local: bool) -> Result<()> {
        if local {
            let own = |source| Error::Own { what: "make", path: directory.to_owned(), source };
            return sys::fs::create_private_dir(Path::new(directory)).map_err(own);
        }
        if let Some(dfs) = &self.cluster {
            // The home itself is for others, too, and so are directories above it.
            dfs.mkdirs(&DfsPath::parse(&home(&self.user))?, HOME_MODE, true)?;
            dfs.mkdirs(&DfsPath::parse(directory)?, DIRECTORY_MODE, true)?;
        }
        Ok(())
    }

    fn write(
        &self,
        path: &str,
        local: bool,
        fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        let own = |source| Error::Own { what: "write", path: path.to_owned(), source };
        match &self.cluster {
            Some(dfs) if !local => {
                let options = CreateOptions { mode: FILE_MODE, ..CreateOptions::default() };
                let mut out = io::BufWriter::new(dfs.create(&DfsPath::parse(path)?, options)?);
                fill(&mut out).map_err(own)?;
                let writer = out.into_inner().map_err(|error| own(error.into_error()))?;
                Ok(writer.close()?)
            }
            _ => {
                let mut out = io::BufWriter::new(fs::File::create(path).map_err(own)?);
                fill(&mut out).and_then(|()| out.flush()).map_err(own)
            }
        }
    }

    /// Runs the job.
    fn submit(
        &self,
        order: &Order,
        (staging, log): (&str, Option<Location>),
        local: bool,
    ) -> Result<Outcome> {
        let options = &self.options;
        let output = match &log {
            // A name for each run: a job writes into a new directory.
            Some(log) => log.below(&format!("{LOG}{}", order.id)).path,
            None => format!("{staging}/log"),
        };
        let mut settings = self.site.settings.clone();
        if local {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            settings.local = Some(cores.min(options.maps as usize));
        }
        if options.dynamic {
            settings.properties.push(format!("mapreduce.job.running.map.limit={}", options.maps));
        }
        settings.detached = options.detached;
        let mut words = self.site.prefix.clone();
        words.extend([ORDER.to_owned(), order.text()?, OUTPUT.to_owned(), output.clone()]);
        let here = local.then(|| self.places.clone());
        let plan = plan(&Arc::new(order.clone()), &output, here).map_err(Error::Job)?;
        let ended = built_in::run(&words, &settings, plan).map_err(Error::Job)?;
        let mut warnings = Vec::new();
        if options.detached {
            warnings.push(format!("the log will be in {output}"));
        }
        Ok(Outcome { job: ended.job, counters: ended.counters, warnings })
    }

    fn remove(&self, staging: &str, local: bool) {
        if local {
            let _ = fs::remove_dir_all(staging);
            return;
        }
        if let (Some(dfs), Ok(path)) = (&self.cluster, DfsPath::parse(staging)) {
            let _ = dfs.delete(&path, true);
        }
    }
}

/// What the last step must know of filters has to fit into its order.
fn check_filtered(order: &Order) -> Result<()> {
    let text = serde_json::to_string(&order.filtered).map_err(Error::List)?;
    match text.len() <= FILTERED_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "-filters with -delete: filters and sources have more than {FILTERED_BYTES_MAX} bytes"
        ))),
    }
}

/// The log is the job's output: on the cluster, or where the job runs.
fn check_log(log: Option<&Location>, local: bool) -> Result<()> {
    match (log.map(|log| &log.place), local) {
        (None, _) | (Some(Place::Machine), true) | (Some(Place::Cluster { .. }), false) => Ok(()),
        (_, true) => Err(Error::usage(
            "-log names a directory of this machine (file:/…) if a path is of this machine",
        )),
        (_, false) => Err(Error::usage("-log names a directory of the cluster")),
    }
}

/// Some of the entries, one a line.
fn lines<'a>(
    out: &mut dyn Write,
    entries: &[Entry],
    wanted: impl Iterator<Item = &'a usize>,
) -> io::Result<()> {
    for entry in wanted.filter_map(|index| entries.get(*index)) {
        serde_json::to_writer(&mut *out, entry)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// A number that no other run has.
fn rand_id() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::COUNTERS;

    /// `distcp LINE` without a cluster; `@` is a directory of this machine.
    fn distcp(scratch: &Path, line: &str) -> Result<Outcome> {
        let line = line.replace('@', &format!("file://{}", scratch.display()));
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        run(&words, &Site::default(), &mut |_| {})
    }

    #[test]
    fn what_is_in_place_is_left_alone_in_small_and_large_directories() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for (directory, count) in
            [("few", LOOKS_MAX), ("many", LOOKS_MAX + 1), ("new", LOOKS_MAX + 1)]
        {
            fs::create_dir_all(at("in").join(directory)).unwrap();
            for number in 0..count {
                fs::write(at("in").join(directory).join(number.to_string()), "source").unwrap();
            }
        }
        for directory in ["few", "many"] {
            fs::create_dir_all(at("out/in").join(directory)).unwrap();
            fs::write(at("out/in").join(directory).join("3"), "mine").unwrap();
        }
        distcp(scratch.path(), "-direct @/in @/out").unwrap();
        for (directory, third) in [("few", "mine"), ("many", "mine"), ("new", "source")] {
            let text = |name: &str| fs::read_to_string(at("out/in").join(directory).join(name));
            assert_eq!(text("3").unwrap(), third, "{directory}");
            assert_eq!(text("4").unwrap(), "source", "{directory}");
        }
    }

    #[test]
    fn logs_of_several_runs_are_in_one_directory() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("in")).unwrap();
        fs::write(scratch.path().join("in/x"), "1").unwrap();
        let runs = || {
            distcp(scratch.path(), "-update -log @/log -v @/in @/out").unwrap();
            let runs = fs::read_dir(scratch.path().join("log")).unwrap();
            let text = |run: fs::DirEntry| fs::read_to_string(run.path().join("part-r-00000"));
            let mut texts: Vec<String> = runs.map(|run| text(run.unwrap()).unwrap()).collect();
            texts.sort();
            texts
        };
        assert_eq!(runs().len(), 1);
        let texts = runs();
        assert!(texts[0].starts_with("FILE_COPIED") && texts[1].starts_with("FILE_SKIPPED"));
    }

    #[test]
    fn an_empty_path_stands_for_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("in")).unwrap();
        fs::write(scratch.path().join("in/x"), "1").unwrap();
        // Two spaces, or one at the end, have an empty word between or behind them.
        for line in [
            "-update -delete @/in ",
            "-update  @/out",
            "-update @/in  @/out",
            "-log  @/in @/out",
            "-atomic -tmp  @/in @/out",
            "-filters  @/in @/out",
            "-filters file:// @/in @/out",
            "-f  @/out",
        ] {
            let refused = distcp(scratch.path(), line).unwrap_err();
            assert!(matches!(refused, Error::EmptyPath), "{line}: {refused}");
            assert_eq!(refused.exit_code(), 255, "{line}");
        }
        fs::write(scratch.path().join("list"), "\n \n").unwrap();
        let refused = distcp(scratch.path(), "-f @/list @/out").unwrap_err();
        assert!(matches!(refused, Error::EmptyList { .. }), "{refused}");
        let refused = distcp(scratch.path(), "-f @/none @/out").unwrap_err();
        assert!(matches!(refused, Error::File { what: "open", .. }), "{refused}");
        assert!(!scratch.path().join("out").try_exists().unwrap());
    }

    #[test]
    fn what_is_no_file_is_refused_before_anything_is_made() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |path: &str| scratch.path().join(path);
        for directory in ["in/sub", "out/d", "outside"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        for file in ["in/a", "in/sub/x"] {
            fs::write(at(file), "1").unwrap();
        }
        let fifo = at("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        for (to, link) in [("nowhere", "lost"), ("in/a", "to-file"), ("../../outside", "out/d/sub")]
        {
            std::os::unix::fs::symlink(to, at(link)).unwrap();
        }
        for (line, target, kind) in [
            ("-overwrite @/in/a @/pipe", "pipe", "a FIFO"),
            ("@/in/a @/pipe", "pipe", "a FIFO"),
            ("-direct -overwrite @/in/a @/pipe", "pipe", "a FIFO"),
            ("-update @/in/a @/to-file", "to-file", "a symbolic link"),
            ("@/in/a @/lost", "lost", "a symbolic link"),
            ("@/in @/lost", "lost", "a symbolic link"),
            ("-atomic @/in @/lost", "lost", "a symbolic link"),
            // On the way of one of two files.
            ("-update @/in @/out/d", "out/d/sub", "a symbolic link"),
        ] {
            let refused = distcp(scratch.path(), line).unwrap_err();
            assert_eq!(refused.exit_code(), 255, "{line}: {refused}");
            let text = refused.to_string();
            let expected = format!("{}/{target} is {kind}: ", scratch.path().display());
            assert!(text.contains(&expected) && text.contains("Delete it"), "{line}: {text}");
        }
        use std::os::unix::fs::FileTypeExt;
        assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
        assert_eq!(fs::read_dir(at("out/d")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(at("outside")).unwrap().count(), 0);
        assert!(fs::symlink_metadata(at("nowhere")).is_err());
        // Left out, or deleted.
        fs::write(at("filters"), ".*/sub\n").unwrap();
        let filters = at("filters");
        let line = format!("-update -delete -filters {} @/in @/out/d", filters.display());
        distcp(scratch.path(), &line).unwrap();
        assert_eq!(fs::read_dir(at("outside")).unwrap().count(), 0);
        fs::remove_file(at("out/d/sub")).unwrap();
        distcp(scratch.path(), "-update @/in @/out/d").unwrap();
        assert_eq!(fs::read(at("out/d/sub/x")).unwrap(), b"1");
    }

    #[test]
    fn what_cannot_be_listed_is_told_and_its_target_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |path: &str| scratch.path().join(path);
        for path in ["in/x", "in/loop/y", "out/loop/again/kept", "out/gone"] {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), "1").unwrap();
        }
        // No directory is entered below itself, not even by a superuser.
        std::os::unix::fs::symlink(".", at("in/loop/again")).unwrap();
        let strict = distcp(scratch.path(), "-update -delete @/in @/out").unwrap_err();
        assert_eq!(strict.exit_code(), 25, "{strict}");
        assert!(at("out/gone").is_file());
        let line = "-update -delete -p -i -log @/log @/in @/out";
        let counters = distcp(scratch.path(), line).unwrap().counters;
        let count = |name: &str| counters.value(COUNTERS, name);
        assert_eq!((count("FAIL"), count("COPY"), count("DELETED")), (1, 2, 1));
        assert!(at("out/loop/again/kept").is_file() && at("out/loop/y").is_file());
        assert!(at("out/x").is_file() && !at("out/gone").try_exists().unwrap());
        let run = fs::read_dir(at("log")).unwrap().next().unwrap().unwrap().path();
        let text = fs::read_to_string(run.join("part-r-00000")).unwrap();
        assert!(text.starts_with("FAIL: file:") && text.contains("Too many levels"), "{text}");
    }

    #[test]
    fn an_atomic_copy_is_made_where_it_can_be_renamed() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("in")).unwrap();
        fs::write(scratch.path().join("in/x"), "1").unwrap();
        for work in
            ["webhdfs://127.0.0.1:1/t", "s3a://bucket/t", "hdfs://far:8020/t", "file:///proc/none"]
        {
            let refused = distcp(scratch.path(), &format!("-atomic -tmp {work} @/in @/out"));
            assert_eq!(refused.unwrap_err().exit_code(), 255, "{work}");
        }
        assert!(!scratch.path().join("out").try_exists().unwrap());
        distcp(scratch.path(), "-atomic -tmp @/deep/work @/in @/out").unwrap();
        assert_eq!(fs::read(scratch.path().join("out/x")).unwrap(), b"1");
        assert_eq!(fs::read_dir(scratch.path().join("deep/work")).unwrap().count(), 0);
    }
}
