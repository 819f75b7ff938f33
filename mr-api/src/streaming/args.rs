//! The command line of a streaming job, with Hadoop's options, and what it means.

mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use mr_formats::NLines;
use mr_model::Error;
use mr_model::job::{Input, OutputTo, from_files, text_out};
use mr_model::runner::{Naming, PARTITION_SEED, Partition, SideFile};
use protocol::property::{
    Comparator, Count, Key, Partitioner, PipeEncoding as Encoding, Properties, Value, is_class,
    keys,
};

use super::input::{InputKind, StreamInput};
use super::io::{RecordReader, RecordWriter};
use super::key_field::KeyFields;
use super::{key_field, unread};
use crate::run::{Args, Options, once, wants_next};
pub(super) use work::Work;
use work::{Role, Scripts, job_variables};

/// `hanno job streaming -help`.
pub const HELP: &str = "\
Runs commands as mapper and reducer, by the rules of Hadoop Streaming.

Usage: hanno job streaming [generic options] -input PATH -output DIR -mapper CMD [options]

  -input PATH            what to read: a file, a directory, a pattern; may be repeated
  -output DIR            a new directory for the result
  -mapper CMD            reads records on standard input, prints `key<TAB>value` lines   (default: hands records on)
  -reducer CMD           reads `key<TAB>value` lines sorted by key; NONE: no reduce; aggregate: sums by prefix (LongValueSum:key)
  -combiner CMD          reduces what a map has printed before it is sent
  -file PATH             a file for the tasks' directories; may be repeated. Also -files A,B#NAME
  -cacheFile URI#NAME    the same of a file of the cluster; may be repeated
  -numReduceTasks N      number of reduce tasks (default 1; 0: as -reducer NONE). Also --reducers N
  -partitioner NAME      HashPartitioner or KeyFieldBasedPartitioner
  -inputformat NAME      TextInputFormat, KeyValueTextInputFormat, NLineInputFormat
  -outputformat NAME     TextOutputFormat, NullOutputFormat
  -io NAME               text, rawbytes or typedbytes on all pipes
  -cmdenv NAME=VALUE     a variable for the commands; may be repeated
  -lazyOutput            no file from a task that writes nothing
  -verbose               accepted; progress is shown in any case
  -help                  this text

Generic options:
  -D NAME=VALUE          a property by its name of today or a former one; `hanno job properties` lists them
  -conf FILE             properties from a file of Hadoop's form; -D wins
  -fs URL, -jt URL       NameNode and JobTracker
  --local[=N], --quiet, --json, --name NAME     as for every job program

Example:
  hanno job streaming -input /logs -output /hits -mapper 'python3 m.py' -reducer 'python3 r.py' -file m.py -file r.py
";

/// A parsed command line.
pub(super) struct Request {
    pub(super) spec: Spec,
    pub(super) options: Options,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OutputKind {
    Text,
    Null,
}

/// A streaming job.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) name: String,
    inputs: Vec<String>,
    pub(super) output: String,
    pub(super) mapper: Work,
    pub(super) reducer: Option<Work>,
    pub(super) combiner: Option<Work>,
    pub(super) side_files: Vec<SideFile>,
    pub(super) reducers: Option<u32>,
    pub(super) input_kind: InputKind,
    output_kind: OutputKind,
    lazy: bool,
    pub(super) ignore_key: bool,
    pub(super) map_input: RecordWriter,
    pub(super) map_output: RecordReader,
    pub(super) reduce_input: RecordWriter,
    pub(super) reduce_output: RecordReader,
    /// `KeyFieldBasedComparator`.
    pub(super) comparator: Option<Arc<KeyFields>>,
    partitioner: Option<Arc<KeyFields>>,
    pub(super) key_value_separator: Option<u8>,
    words: Vec<String>,
}

/// Options as given on the command line.
#[derive(Default)]
struct Given {
    inputs: Vec<String>,
    files: Vec<String>,
    /// Files of the cluster, unless their scheme says otherwise.
    cached: Vec<String>,
    variables: Vec<(String, String)>,
    values: BTreeMap<&'static str, String>,
    lazy: bool,
    job_words: Vec<String>,
    file_system: Option<String>,
    /// Those that may be given once only.
    seen: Vec<&'static str>,
}

/// Options with one value, that are given once.
const VALUES: [&str; 9] = [
    "output",
    "mapper",
    "reducer",
    "combiner",
    "numReduceTasks",
    "partitioner",
    "inputformat",
    "outputformat",
    "io",
];

pub(super) fn parse(words: &[String]) -> Result<Request, Error> {
    let mut given = Given::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let name = word
            .strip_prefix('-')
            .ok_or_else(|| Error::usage(format!("unexpected argument `{word}`")))?;
        let mut value = || {
            rest.next().cloned().ok_or_else(|| Error::usage(format!("option {word} needs a value")))
        };
        match name {
            "input" | "file" | "cacheFile" => {
                let list = match name {
                    "input" => &mut given.inputs,
                    "file" => &mut given.files,
                    _ => &mut given.cached,
                };
                list.push(value()?);
                while let Some(more) = rest.as_slice().first().filter(|more| !more.starts_with('-'))
                {
                    list.push(more.clone());
                    rest.next();
                }
            }
            "files" | "-files" => given.files.extend(value()?.split(',').map(str::to_owned)),
            "cmdenv" => match value()?.split_once('=') {
                Some((name, value)) if !name.is_empty() => {
                    given.variables.push((name.to_owned(), value.to_owned()));
                }
                _ => return Err(Error::usage("-cmdenv takes NAME=VALUE")),
            },
            "lazyOutput" => given.lazy = true,
            "verbose" | "debug" => {}
            "help" | "info" | "-help" | "h" => return Err(Error::HelpAsked),
            "D" | "jobconf" => given.job_words.extend(["-D".to_owned(), value()?]),
            "fs" => {
                once(&mut given.seen, "-fs")?;
                given.file_system = Some(value()?);
            }
            "jt" => given.job_words.extend(["--jobtracker".to_owned(), value()?]),
            _ if wants_next(word) => given.job_words.extend([word.clone(), value()?]),
            _ if name.starts_with('-') || name.starts_with('D') => {
                given.job_words.push(word.clone())
            }
            _ => match VALUES.into_iter().find(|known| *known == name) {
                Some(known) => {
                    let value = value()?;
                    if given.values.insert(known, value).is_some() {
                        return Err(Error::usage(format!(
                            "option {word} is given twice: give it once"
                        )));
                    }
                }
                None => return Err(not_here(word, name)),
            },
        }
    }
    let (mut left, mut options) = Args::parse(&given.job_words)?;
    if let Err(error) = left.operands() {
        return Err(Error::usage(error.to_string()));
    }
    if options.reducers.is_some() && given.values.contains_key("numReduceTasks") {
        let text = "-numReduceTasks and --reducers both say the number of reduces: give one";
        return Err(Error::usage(text));
    }
    options.file_system = given.file_system.take();
    request(given, options, words)
}

/// The job that the options describe.
fn request(given: Given, mut options: Options, words: &[String]) -> Result<Request, Error> {
    let has_partitioner = given.values.contains_key("partitioner")
        || options.properties.contains_key(keys::PARTITIONER.name());
    let has_variables = !given.variables.is_empty();
    let spec = spec(given, &mut options, words)?;
    let has = spec.has(has_partitioner, has_variables);
    options.warnings = unread::warnings(&options.given(), &has);
    Ok(Request { spec, options })
}

/// Hadoop's options that are missing here, and why.
const NOT_HERE: [(&str, &str); 10] = [
    ("jobname", "`-D mapreduce.job.name=NAME` or `--name NAME` names the job"),
    ("archives", "archives are not unpacked: `-files` sends files as they are"),
    ("cacheArchive", "archives are not unpacked: `-files` sends files as they are"),
    ("libjars", "there is no Java"),
    ("inputreader", "records are lines; a Rust job can have a format of its own"),
    ("mapdebug", "`hanno job replay` runs a failed attempt again"),
    ("reducedebug", "`hanno job replay` runs a failed attempt again"),
    (
        "background",
        "`&` of the shell runs a driver in the background, and its job goes on without it",
    ),
    ("additionalconfspec", "`-conf FILE` reads properties"),
    ("dfs", "`-fs URL` names the cluster"),
];

fn not_here(word: &str, name: &str) -> Error {
    let known = NOT_HERE.iter().find(|(known, _)| *known == name);
    Error::usage(match known {
        Some((_, why)) => format!("option `{word}` is not here: {why}"),
        None => format!("unknown option `{word}`"),
    })
}

/// How records pass through the four pipes of a job's scripts: properties by pipe, `-io` for pipes without one.
struct Pipes<'a> {
    properties: &'a Properties,
    io: Option<Encoding>,
}

impl<'a> Pipes<'a> {
    fn new(properties: &'a Properties, io: Option<String>) -> Result<Self, Error> {
        let io = io.map(|text| {
            Encoding::parse(&text)
                .ok_or_else(|| Error::usage(format!("-io `{text}` is not {}", Encoding::WANTED)))
        });
        Ok(Pipes { properties, io: io.transpose()? })
    }

    fn encoding(&self, key: Key<Encoding>) -> Result<Encoding, Error> {
        let given = key.get(self.properties)?;
        Ok(given.or(self.io).unwrap_or_default())
    }

    fn separator(&self, key: Key<String>) -> Result<Vec<u8>, Error> {
        let given = key.get(self.properties)?.filter(|text| !text.is_empty());
        Ok(given.map_or_else(|| b"\t".to_vec(), String::into_bytes))
    }

    fn writer(
        &self,
        encoding: Key<Encoding>,
        separator: Key<String>,
    ) -> Result<RecordWriter, Error> {
        let (encoding, separator) = (self.encoding(encoding)?, self.separator(separator)?);
        Ok(RecordWriter { encoding, separator })
    }

    fn reader(
        &self,
        encoding: Key<Encoding>,
        separator: Key<String>,
        key_fields: Key<Count>,
    ) -> Result<RecordReader, Error> {
        let key_fields = key_fields.get(self.properties)?.map_or(1, |count| count.0 as usize);
        let (encoding, separator) = (self.encoding(encoding)?, self.separator(separator)?);
        Ok(RecordReader { encoding, separator, key_fields })
    }
}

fn spec(given: Given, options: &mut Options, words: &[String]) -> Result<Spec, Error> {
    let Given { inputs, files, cached, variables, mut values, lazy, .. } = given;
    let missing = |name: &str| Error::usage(format!("-{name} is missing"));
    let output = values.remove("output").ok_or_else(|| missing("output"))?;
    if inputs.is_empty() {
        return Err(missing("input"));
    }
    if let Some(count) = values.remove("numReduceTasks") {
        set_reduces(options, &count)?;
    }
    let reducers = options.reducers()?;
    let properties = &options.properties;
    let pipes = Pipes::new(properties, values.remove("io"))?;
    let input_kind = input_kind(values.remove("inputformat").as_deref(), properties)?;
    let side_files = files.iter().map(|file| SideFile::parse(file));
    let side_files = side_files.chain(cached.iter().map(|file| SideFile::parse_of_cluster(file)));
    let side_files: Vec<SideFile> = side_files.collect::<Result<_, Error>>()?;
    let key_separator = pipes.separator(keys::KEY_FIELD_SEPARATOR)?;
    let name = options.name()?.unwrap_or_else(|| "streamjob".to_owned());
    let inputs: Vec<String> = inputs.iter().flat_map(|paths| split_paths(paths)).collect();
    let scripts = Scripts {
        job_variables: job_variables(&name, &inputs, &output),
        variables,
        sent: side_files.iter().map(|file| file.name.clone()).collect(),
        properties,
    };
    let reducer = match values.remove("reducer") {
        Some(text) if text == "NONE" => None,
        text => Some(scripts.work(Role::Reducer, text)?),
    }
    .filter(|_| reducers != Some(0));
    let map_input = pipes.writer(keys::MAP_INPUT_ENCODING, keys::MAP_INPUT_SEPARATOR)?;
    // Binary records have their keys, even those whose keys are positions of lines.
    let ignore_key = map_input.encoding == Encoding::Text
        && keys::IGNORE_KEY.get(properties)?.unwrap_or(input_kind == InputKind::Text);
    Ok(Spec {
        name,
        inputs,
        output,
        mapper: scripts.work(Role::Mapper, values.remove("mapper"))?,
        combiner: values
            .remove("combiner")
            .map(|text| scripts.work(Role::Combiner, Some(text)))
            .transpose()?,
        reducer,
        side_files,
        reducers,
        input_kind,
        output_kind: output_kind(values.remove("outputformat").as_deref())?,
        lazy,
        ignore_key,
        map_input,
        map_output: pipes.reader(
            keys::MAP_OUTPUT_ENCODING,
            keys::MAP_OUTPUT_SEPARATOR,
            keys::MAP_OUTPUT_KEY_FIELDS,
        )?,
        reduce_input: pipes.writer(keys::REDUCE_INPUT_ENCODING, keys::REDUCE_INPUT_SEPARATOR)?,
        reduce_output: pipes.reader(
            keys::REDUCE_OUTPUT_ENCODING,
            keys::REDUCE_OUTPUT_SEPARATOR,
            keys::REDUCE_OUTPUT_KEY_FIELDS,
        )?,
        comparator: comparator(properties, &key_separator)?,
        partitioner: partitioner(values.remove("partitioner"), properties, &key_separator)?,
        key_value_separator: keys::KEY_VALUE_SEPARATOR
            .get(properties)?
            .and_then(|text| text.bytes().next()),
        words: words.to_vec(),
    })
}

const INPUT_PACKAGES: [&str; 3] = [
    "org.apache.hadoop.mapred",
    "org.apache.hadoop.mapred.lib",
    "org.apache.hadoop.mapreduce.lib.input",
];
const OUTPUT_PACKAGES: [&str; 3] = [
    "org.apache.hadoop.mapred",
    "org.apache.hadoop.mapred.lib",
    "org.apache.hadoop.mapreduce.lib.output",
];

fn set_reduces(options: &mut Options, count: &str) -> Result<(), Error> {
    let count: u32 = count
        .parse()
        .map_err(|_| Error::usage(format!("-numReduceTasks `{count}` is no whole number")))?;
    keys::REDUCES.set(&mut options.properties, count.to_string());
    Ok(())
}

/// Splits paths at commas; commas within braces belong to globs, and a backslash removes the meaning of the next character. A path that is empty stays: what
/// it means, nothing, is the driver's to refuse.
fn split_paths(paths: &str) -> Vec<String> {
    let (mut all, mut path, mut depth, mut escaped) = (Vec::new(), String::new(), 0u32, false);
    for c in paths.chars() {
        match c {
            ',' if depth == 0 && !escaped => {
                all.push(std::mem::take(&mut path));
                continue;
            }
            '{' if !escaped => depth += 1,
            '}' if !escaped => depth = depth.saturating_sub(1),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        path.push(c);
    }
    all.push(path);
    all
}

fn input_kind(name: Option<&str>, properties: &Properties) -> Result<InputKind, Error> {
    let is = |name, last| is_class(name, &INPUT_PACKAGES, last);
    match name {
        None => Ok(InputKind::Text),
        Some(name) if is(name, "TextInputFormat") => Ok(InputKind::Text),
        Some(name) if is(name, "KeyValueTextInputFormat") => Ok(InputKind::KeyValueText),
        Some(name) if is(name, "NLineInputFormat") => {
            let count = keys::LINES_PER_MAP.get(properties)?.map_or(1, |count| count.0.into());
            Ok(InputKind::NLines(NLines { count }))
        }
        Some(other) => Err(Error::usage(format!(
            "-inputformat {other} is not known here: TextInputFormat, KeyValueTextInputFormat and NLineInputFormat are"
        ))),
    }
}

fn output_kind(name: Option<&str>) -> Result<OutputKind, Error> {
    let is = |name, last| is_class(name, &OUTPUT_PACKAGES, last);
    match name {
        None => Ok(OutputKind::Text),
        Some(name) if is(name, "TextOutputFormat") => Ok(OutputKind::Text),
        Some(name) if is(name, "NullOutputFormat") => Ok(OutputKind::Null),
        Some(other) => Err(Error::usage(format!(
            "-outputformat {other} is not known here: TextOutputFormat and NullOutputFormat are"
        ))),
    }
}

fn comparator(properties: &Properties, separator: &[u8]) -> Result<Option<Arc<KeyFields>>, Error> {
    match keys::COMPARATOR.get(properties)? {
        None | Some(Comparator::Bytes) => Ok(None),
        Some(Comparator::KeyField) => {
            let options = keys::COMPARATOR_OPTIONS.get(properties)?.unwrap_or_default();
            let name = keys::COMPARATOR_OPTIONS.name();
            KeyFields::parse(name, &options, separator).map(|fields| Some(Arc::new(fields)))
        }
    }
}

fn partitioner(
    name: Option<String>,
    properties: &Properties,
    separator: &[u8],
) -> Result<Option<Arc<KeyFields>>, Error> {
    let name = match name {
        Some(name) => Some(Partitioner::parse(&name).ok_or_else(|| {
            Error::usage(format!("-partitioner `{name}` is not {}", Partitioner::WANTED))
        })?),
        None => keys::PARTITIONER.get(properties)?,
    };
    match name {
        None | Some(Partitioner::Hash) => Ok(None),
        Some(Partitioner::KeyField) => {
            let options = keys::PARTITIONER_OPTIONS.get(properties)?;
            // As in Hadoop, the older of the two wins.
            let fields = match (keys::PARTITIONER_FIELDS.get(properties)?, options) {
                (Some(count), _) => KeyFields::first(count.0 as usize, separator),
                (None, Some(options)) => {
                    KeyFields::parse(keys::PARTITIONER_OPTIONS.name(), &options, separator)?
                }
                (None, None) => return Ok(None),
            };
            Ok(Some(Arc::new(fields)))
        }
    }
}

impl Spec {
    /// What options can belong to.
    fn has(&self, partitioner: bool, variables: bool) -> unread::Has {
        let is_script = |work: Option<&Work>| matches!(work, Some(Work::Script(_)));
        let is_aggregate = |work: &Option<Work>| matches!(work, Some(Work::Aggregate { .. }));
        unread::Has {
            reduce: self.reducer.is_some(),
            combiner: self.combiner.is_some(),
            partitioner,
            key_partitioner: self.partitioner.is_some(),
            key_comparator: self.comparator.is_some(),
            aggregate: is_aggregate(&self.reducer) || is_aggregate(&self.combiner),
            map_script: is_script(Some(&self.mapper)),
            reduce_script: is_script(self.reducer.as_ref()) || is_script(self.combiner.as_ref()),
            map_input_is_text: self.map_input.encoding == Encoding::Text,
            variables,
            key_value_input: self.input_kind == InputKind::KeyValueText,
            counts_lines: matches!(self.input_kind, InputKind::NLines(_)),
        }
    }

    pub(super) fn is_map_only(&self) -> bool {
        self.reducer.is_none()
    }

    pub(super) fn input(&self) -> Input<StreamInput> {
        let format = StreamInput::new(self.input_kind, self.key_value_separator);
        from_files(self.inputs.clone(), format)
    }

    pub(super) fn output(&self) -> OutputTo {
        let output = text_out(self.output.clone());
        let output = if self.lazy { output.lazy() } else { output }.naming(Naming::Plain);
        if self.output_kind == OutputKind::Null { output.discard() } else { output }
    }

    /// The partitioner for an engine's key, if the default is not enough.
    pub(super) fn partition(&self) -> Option<Partition> {
        let (fields, sorted) = (self.partitioner.clone(), self.comparator.is_some());
        if fields.is_none() && !sorted {
            return None;
        }
        Some(Partition::Custom(Arc::new(move |key, partitions| {
            let key = if sorted { key_field::decode(key) } else { key };
            match &fields {
                Some(fields) => fields.partition(key, partitions),
                None => shuffle::partition_of(key, partitions, PARTITION_SEED),
            }
        })))
    }

    /// What driver and runner must agree on.
    pub(super) fn describe(&self) -> String {
        format!("streaming {:?}", self.words)
    }
}

#[cfg(test)]
mod tests;
