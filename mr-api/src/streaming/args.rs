//! The command line of a streaming job, with Hadoop's options, and what it means.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::aggregate::AGGREGATE;
use super::command;
use super::io::{Encoding, RecordReader, RecordWriter};
use super::key_field::{self, KeyFields};
use super::process::Script;
use crate::args::Args;
use crate::cache::SideFile;
use crate::error::Error;
use crate::job::{Input, InputPaths, OutputTo, text_out};
use crate::options::{self, Options};
use crate::partition::Partition;
use crate::streaming::stages::StreamInput;

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
  -numReduceTasks N      number of reduce tasks (default 1; 0 is the same as -reducer NONE)
  -partitioner NAME      HashPartitioner or KeyFieldBasedPartitioner
  -inputformat NAME      TextInputFormat, KeyValueTextInputFormat
  -outputformat NAME     TextOutputFormat, NullOutputFormat
  -io NAME               text, rawbytes or typedbytes on all pipes
  -cmdenv NAME=VALUE     a variable for the commands; may be repeated
  -lazyOutput            no file from a task that writes nothing
  -verbose               accepted; progress is shown in any case
  -help                  this text

Generic options:
  -D NAME=VALUE          a property: stream.num.map.output.key.fields, stream.map.output.field.separator,
                         mapreduce.partition.keypartitioner.options, mapreduce.job.name, … by their present or former names
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

/// What runs as mapper, combiner or reducer.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Hands records on.
    Identity,
    /// Hadoop's aggregate library.
    Aggregate,
    Script(Arc<Script>),
}

/// How input files become records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InputKind {
    Text,
    KeyValueText,
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
    output: String,
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

/// Options as they stand on the command line.
#[derive(Default)]
struct Given {
    inputs: Vec<String>,
    files: Vec<String>,
    variables: Vec<(String, String)>,
    values: BTreeMap<&'static str, String>,
    lazy: bool,
    job_words: Vec<String>,
    file_system: Option<String>,
}

/// Options with one value.
const VALUES: [&str; 10] = [
    "output",
    "mapper",
    "reducer",
    "combiner",
    "numReduceTasks",
    "partitioner",
    "inputformat",
    "outputformat",
    "io",
    "jobname",
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
            "input" => given.inputs.push(value()?),
            "file" | "cacheFile" => given.files.push(value()?),
            "files" => given.files.extend(value()?.split(',').map(str::to_owned)),
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
            "fs" => given.file_system = Some(value()?),
            "jt" => given.job_words.extend(["--jobtracker".to_owned(), value()?]),
            "-name" | "-namenode" | "-jobtracker" | "-reducers" => {
                given.job_words.extend([word.clone(), value()?]);
            }
            _ if name.starts_with('-') || name.starts_with('D') => {
                given.job_words.push(word.clone())
            }
            _ => match VALUES.into_iter().find(|known| *known == name) {
                Some(known) => {
                    let value = value()?;
                    given.values.insert(known, value);
                }
                None => return Err(Error::usage(format!("unknown option `{word}`"))),
            },
        }
    }
    let (mut left, mut options) = Args::parse(&given.job_words)?;
    if let Err(error) = left.operands() {
        return Err(Error::usage(error.to_string()));
    }
    options.file_system = given.file_system.take();
    let spec = spec(given, &mut options, words)?;
    Ok(Request { spec, options })
}

/// How records cross the four pipes of a job's scripts: properties by pipe, `-io` for those that have none.
struct Pipes<'a> {
    properties: &'a BTreeMap<String, String>,
    io: Option<&'a str>,
}

impl Pipes<'_> {
    fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }

    fn encoding(&self, pipe: &str) -> Result<Encoding, Error> {
        let text = self.property(&format!("stream.{pipe}")).or(self.io);
        text.map_or(Ok(Encoding::Text), Encoding::parse)
    }

    fn separator(&self, name: &str) -> Vec<u8> {
        self.property(name).unwrap_or("\t").as_bytes().to_vec()
    }

    fn writer(&self, pipe: &str) -> Result<RecordWriter, Error> {
        let separator = self.separator(&format!("stream.{pipe}.field.separator"));
        Ok(RecordWriter { encoding: self.encoding(pipe)?, separator })
    }

    fn reader(&self, pipe: &str) -> Result<RecordReader, Error> {
        let name = format!("stream.num.{pipe}.key.fields");
        let key_fields = self.property(&name).map_or(Ok(1), |count| {
            count.parse().map_err(|_| Error::usage(format!("property {name}: `{count}`")))
        })?;
        let separator = self.separator(&format!("stream.{pipe}.field.separator"));
        Ok(RecordReader { encoding: self.encoding(pipe)?, separator, key_fields })
    }
}

fn spec(given: Given, options: &mut Options, words: &[String]) -> Result<Spec, Error> {
    let Given { inputs, files, variables, mut values, lazy, .. } = given;
    let missing = |name: &str| Error::usage(format!("-{name} is missing"));
    let output = values.remove("output").ok_or_else(|| missing("output"))?;
    if inputs.is_empty() {
        return Err(missing("input"));
    }
    if let Some(count) = values.remove("numReduceTasks") {
        let count: u32 =
            count.parse().map_err(|_| Error::usage(format!("-numReduceTasks {count}")))?;
        options.properties.insert(options::REDUCES.to_owned(), count.to_string());
    }
    let reducers = options.reducers()?;
    let properties = &options.properties;
    let property = |name: &str| properties.get(name).map(String::as_str);
    let io = values.remove("io");
    let pipes = Pipes { properties, io: io.as_deref() };
    let work = |text: Option<String>| work(text, &variables, &property);
    let input_kind = input_kind(values.remove("inputformat").as_deref())?;
    let side_files: Result<Vec<SideFile>, Error> =
        files.iter().map(|f| SideFile::parse(f)).collect();
    let key_separator = pipes.separator("mapreduce.map.output.key.field.separator");
    let reducer = match values.remove("reducer") {
        Some(text) if text == "NONE" => None,
        text => Some(work(text)?),
    };
    let name = options.name().unwrap_or_else(|| "streamjob".to_owned());
    let ignore_key = match property("stream.map.input.ignoreKey") {
        Some(text) => text == "true",
        None => input_kind == InputKind::Text,
    };
    Ok(Spec {
        name,
        inputs: inputs.iter().flat_map(|paths| paths.split(',')).map(str::to_owned).collect(),
        output,
        mapper: work(values.remove("mapper"))?,
        combiner: values.remove("combiner").map(|text| work(Some(text))).transpose()?,
        reducer: reducer.filter(|_| reducers != Some(0)),
        side_files: side_files?,
        reducers,
        input_kind,
        output_kind: output_kind(values.remove("outputformat").as_deref())?,
        lazy,
        ignore_key,
        map_input: pipes.writer("map.input")?,
        map_output: pipes.reader("map.output")?,
        reduce_input: pipes.writer("reduce.input")?,
        reduce_output: pipes.reader("reduce.output")?,
        comparator: comparator(&property, &key_separator)?,
        partitioner: partitioner(
            values.remove("partitioner").as_deref(),
            &property,
            &key_separator,
        )?,
        key_value_separator: property(options::KEY_VALUE_SEPARATOR)
            .and_then(|text| text.bytes().next()),
        words: words.to_vec(),
    })
}

/// The last part of a Java class name.
fn class(name: &str) -> &str {
    name.rsplit(['.', '$']).next().unwrap_or(name)
}

fn work<'a>(
    text: Option<String>,
    variables: &[(String, String)],
    property: &impl Fn(&str) -> Option<&'a str>,
) -> Result<Work, Error> {
    let Some(text) = text else { return Ok(Work::Identity) };
    if text == AGGREGATE
        || text.ends_with(".ValueAggregatorReducer")
        || text.ends_with(".ValueAggregatorCombiner")
    {
        return Ok(Work::Aggregate);
    }
    if matches!(class(&text), "IdentityMapper" | "IdentityReducer" | "Mapper" | "Reducer")
        && text.contains('.')
    {
        return Ok(Work::Identity);
    }
    if text.starts_with("org.apache.hadoop.") {
        return Err(Error::usage(format!("`{text}` is a Java class: only commands run here")));
    }
    let words = command::split(&text);
    if words.is_empty() {
        return Err(Error::usage("an empty command"));
    }
    Ok(Work::Script(Arc::new(Script {
        words,
        variables: variables.to_vec(),
        reporter_prefix: property("stream.stderr.reporter.prefix")
            .unwrap_or("reporter:")
            .to_owned(),
        exit_code_matters: property("stream.non.zero.exit.is.failure") != Some("false"),
    })))
}

fn input_kind(name: Option<&str>) -> Result<InputKind, Error> {
    match name.map(class) {
        None | Some("TextInputFormat") => Ok(InputKind::Text),
        Some("KeyValueTextInputFormat") => Ok(InputKind::KeyValueText),
        Some(other) => Err(Error::usage(format!("-inputformat {other} is not known"))),
    }
}

fn output_kind(name: Option<&str>) -> Result<OutputKind, Error> {
    match name.map(class) {
        None | Some("TextOutputFormat") => Ok(OutputKind::Text),
        Some("NullOutputFormat") => Ok(OutputKind::Null),
        Some(other) => Err(Error::usage(format!("-outputformat {other} is not known"))),
    }
}

fn comparator<'a>(
    property: &impl Fn(&str) -> Option<&'a str>,
    separator: &[u8],
) -> Result<Option<Arc<KeyFields>>, Error> {
    match property("mapreduce.job.output.key.comparator.class").map(class) {
        None | Some("Comparator") => Ok(None),
        Some("KeyFieldBasedComparator") => {
            let options = property("mapreduce.partition.keycomparator.options").unwrap_or_default();
            KeyFields::parse(options, separator).map(|fields| Some(Arc::new(fields)))
        }
        Some(other) => Err(Error::usage(format!("comparator {other} is not known"))),
    }
}

fn partitioner<'a>(
    name: Option<&str>,
    property: &impl Fn(&str) -> Option<&'a str>,
    separator: &[u8],
) -> Result<Option<Arc<KeyFields>>, Error> {
    match name.or(property("mapreduce.job.partitioner.class")).map(class) {
        None | Some("HashPartitioner") => Ok(None),
        Some("KeyFieldBasedPartitioner") => {
            let legacy = property("num.key.fields.for.partition").map(str::parse);
            let fields = match (property("mapreduce.partition.keypartitioner.options"), legacy) {
                (Some(options), _) => KeyFields::parse(options, separator)?,
                (None, Some(Ok(count))) => KeyFields::first(count, separator),
                (None, Some(Err(_))) => return Err(Error::usage("num.key.fields.for.partition")),
                (None, None) => return Ok(None),
            };
            Ok(Some(Arc::new(fields)))
        }
        Some(other) => Err(Error::usage(format!("-partitioner {other} is not known"))),
    }
}

impl Spec {
    pub(super) fn is_map_only(&self) -> bool {
        self.reducer.is_none()
    }

    pub(super) fn input(&self) -> Input<StreamInput> {
        Input { paths: InputPaths::Paths(self.inputs.clone()), format: StreamInput::new(self) }
    }

    pub(super) fn output(&self) -> OutputTo {
        let output = text_out(self.output.clone());
        let output = if self.lazy { output.lazy() } else { output };
        if self.output_kind == OutputKind::Null { output.discard() } else { output }
    }

    /// Chooses the partition of an engine's key, if the default would not do.
    pub(super) fn partition(&self) -> Option<Partition> {
        let (fields, sorted) = (self.partitioner.clone(), self.comparator.is_some());
        if fields.is_none() && !sorted {
            return None;
        }
        Some(Partition::Custom(Arc::new(move |key, partitions| {
            let key = if sorted { key_field::decode(key) } else { key };
            match &fields {
                Some(fields) => fields.partition(key, partitions),
                None => shuffle::partition_of(key, partitions, crate::partition::PARTITION_SEED),
            }
        })))
    }

    /// What driver and runner must agree on.
    pub(super) fn describe(&self) -> String {
        format!("streaming {:?}", self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Request, Error> {
        parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_command_line_as_people_write_it() {
        let Request { spec, options } = parsed(&[
            "-D",
            "mapred.reduce.tasks=3",
            "-Dstream.num.map.output.key.fields=2",
            "-files",
            "hdfs:///a/b#c,local.txt",
            "-input",
            "hdfs://nn:8020/in",
            "-input",
            "/x,/y",
            "-output",
            "/out",
            "-mapper",
            "python3 m.py -v",
            "-reducer",
            "aggregate",
            "-file",
            "m.py",
            "-cmdenv",
            "A=b=c",
            "-numReduceTasks",
            "5",
            "-lazyOutput",
            "--quiet",
        ])
        .unwrap();
        assert_eq!(
            spec.inputs,
            ["hdfs://nn:8020/in", "/x", "/y"],
            "what they mean is the driver's to say"
        );
        assert_eq!(spec.reducers, Some(5), "-numReduceTasks wins");
        assert!(options.quiet && spec.lazy && spec.ignore_key);
        assert_eq!(spec.map_output.key_fields, 2);
        let names: Vec<&str> = spec.side_files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["c", "local.txt", "m.py"]);
        let Work::Script(script) = &spec.mapper else { panic!("a script") };
        assert_eq!(script.words, ["python3", "m.py", "-v"]);
        assert_eq!(script.variables, [("A".to_owned(), "b=c".to_owned())]);
        assert!(matches!(spec.reducer, Some(Work::Aggregate)));
    }

    #[test]
    fn no_reduce_in_both_ways() {
        for extra in
            [&["-reducer", "NONE"][..], &["-numReduceTasks", "0"], &["-D", "mapred.reduce.tasks=0"]]
        {
            let words = [&["-input", "a", "-output", "b", "-mapper", "cat"], extra].concat();
            assert!(parsed(&words).unwrap().spec.is_map_only(), "{extra:?}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (words, expected) in [
            (&["-output", "b"][..], "-input is missing"),
            (&["-input", "a"], "-output is missing"),
            (&["-input"], "needs a value"),
            (&["-what", "x"], "unknown option `-what`"),
            (&["stray"], "unexpected argument `stray`"),
            (&["-input", "a", "-output", "b", "-inputformat", "x.Y"], "-inputformat Y"),
            (&["-input", "a", "-output", "b", "-io", "json"], "`json`"),
            (&["-input", "a", "-output", "b", "-mapper", " "], "an empty command"),
            (&["-input", "a", "-output", "b", "-cmdenv", "A"], "NAME=VALUE"),
        ] {
            let error = parsed(words).err().unwrap().to_string();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }
}
