//! The options of the balancer: Hadoop's options and properties, each honoured, or refused by name.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use protocol::namenode::DatanodeInfo;

use crate::dfs::size;
use crate::output::report;

/// Default difference from the average that is tolerated, per cent of the capacity.
const THRESHOLD: f64 = 10.0;
/// Iterations without a byte moved after which it ends, as HDFS.
const IDLE_ITERATIONS_MAX: u32 = 5;
/// Most bytes that one DataNode gives or takes in one iteration, as HDFS.
const BYTES_PER_NODE_MAX: u64 = 10 << 30;
/// Most moves of one DataNode in progress at once; the NameNode refuses more.
const MOVES_PER_SOURCE: usize = 8;

const BYTES_KEY: &str = "dfs.balancer.max-size-to-move";
const MOVES_KEY: &str = "dfs.datanode.balance.max.concurrent.moves";
/// Properties that are honoured.
pub(super) const KEYS: [&str; 2] = [BYTES_KEY, MOVES_KEY];
/// Options that are refused, with what to do instead.
const REFUSED: [(&str, &str); 4] = [
    ("-blockpools", "there is one pool of blocks"),
    (
        "-asService",
        "it ends when the cluster is balanced; have cron or a supervisor start it again",
    ),
    ("-limitOverUtilizedNum", "name the DataNodes that shall give by -source"),
    ("-hotBlockTimeInterval", "blocks are chosen without regard to who reads them"),
];

/// The options given.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Options {
    pub(super) threshold: f64,
    /// `None`: it never gives up.
    pub(super) idle_iterations_max: Option<u32>,
    pub(super) bytes_per_node_max: u64,
    pub(super) moves_per_source: usize,
    /// DataNodes that take no part.
    excluded: BTreeSet<String>,
    /// DataNodes that take part; empty for all.
    included: BTreeSet<String>,
    /// DataNodes that may give; empty for all.
    sources: BTreeSet<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threshold: THRESHOLD,
            idle_iterations_max: Some(IDLE_ITERATIONS_MAX),
            bytes_per_node_max: BYTES_PER_NODE_MAX,
            moves_per_source: MOVES_PER_SOURCE,
            excluded: BTreeSet::new(),
            included: BTreeSet::new(),
            sources: BTreeSet::new(),
        }
    }
}

impl Options {
    /// Reads the words of a command line, and properties of which [`KEYS`] count.
    pub(super) fn parse(words: &[String], properties: &[(String, String)]) -> Result<Self> {
        let mut options = Options::default();
        for (key, value) in properties {
            options.property(key, value)?;
        }
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            // Fulfilled anyway: there is no upgrade to wait for, and the fullest always start.
            if matches!(word, "-runDuringUpgrade" | "-sortTopNodes") {
                continue;
            }
            if let Some((_, instead)) = REFUSED.iter().find(|(option, _)| *option == word) {
                bail!("{word} is not supported: {instead}");
            }
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word {
                "-threshold" => options.threshold = threshold(value()?)?,
                "-idleiterations" => options.idle_iterations_max = iterations(value()?)?,
                // With one pool of blocks both are the same.
                "-policy" => match value()?.to_ascii_lowercase().as_str() {
                    "datanode" | "blockpool" => {}
                    other => bail!("Cannot parse string \"{other}\": datanode or blockpool"),
                },
                "-exclude" | "-include" | "-source" => {
                    let hosts = match value()? {
                        "-f" => listed(Path::new(value()?))?,
                        text => hosts(text),
                    };
                    if hosts.is_empty() {
                        bail!("{word} names no DataNode");
                    }
                    let list = match word {
                        "-exclude" => &mut options.excluded,
                        "-include" => &mut options.included,
                        _ => &mut options.sources,
                    };
                    *list = hosts;
                }
                _ => bail!("unknown option: {word}"),
            }
        }
        if !options.excluded.is_empty() && !options.included.is_empty() {
            bail!("exclude and include options cannot be specified together.");
        }
        Ok(options)
    }

    fn property(&mut self, key: &str, value: &str) -> Result<()> {
        let wrong = |expected: &str| format!("{key}: `{value}' is not {expected}");
        match key {
            BYTES_KEY => {
                let bytes = size(value).filter(|bytes| *bytes > 0);
                self.bytes_per_node_max = bytes.with_context(|| wrong("a size like 10g"))?;
            }
            MOVES_KEY => {
                let count: usize = value
                    .parse()
                    .ok()
                    .filter(|count| *count > 0)
                    .with_context(|| wrong("a number from 1 on"))?;
                if count > MOVES_PER_SOURCE {
                    report!(
                        "balancer: {key}: {MOVES_PER_SOURCE} is used, which is the most that a DataNode takes here"
                    );
                }
                self.moves_per_source = count.min(MOVES_PER_SOURCE);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a DataNode takes part.
    pub(super) fn takes_part(&self, node: &DatanodeInfo) -> bool {
        !names(&self.excluded, node) && (self.included.is_empty() || names(&self.included, node))
    }

    /// Whether it may give.
    pub(super) fn may_give(&self, node: &DatanodeInfo) -> bool {
        self.sources.is_empty() || names(&self.sources, node)
    }

    /// Refuses a listed name that no DataNode has: a typing error would move the wrong data.
    pub(super) fn check_names(&self, nodes: &[&DatanodeInfo]) -> Result<()> {
        for (option, list) in
            [("-exclude", &self.excluded), ("-include", &self.included), ("-source", &self.sources)]
        {
            for name in list {
                let one = BTreeSet::from([name.clone()]);
                if !nodes.iter().any(|node| names(&one, node)) {
                    bail!("{option}: no DataNode {name} is known");
                }
            }
        }
        Ok(())
    }
}

fn threshold(text: &str) -> Result<f64> {
    let threshold: f64 = text.parse().with_context(|| format!("not a threshold: {text}"))?;
    if !(1.0..=100.0).contains(&threshold) {
        bail!("Number out of range: threshold = {text}");
    }
    Ok(threshold)
}

/// -1 means forever.
fn iterations(text: &str) -> Result<Option<u32>> {
    match text {
        "-1" => Ok(None),
        text => Ok(Some(text.parse().with_context(|| format!("not a number: {text}"))?)),
    }
}

fn hosts(text: &str) -> BTreeSet<String> {
    let names = text.split([',', ' ', '\t', '\n', '\r']);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The lines of a file; a `#` starts a comment.
fn listed(file: &Path) -> Result<BTreeSet<String>> {
    let text =
        sys::fs::read_input(file).with_context(|| format!("cannot read {}", file.display()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    Ok(hosts(&lines.collect::<Vec<_>>().join("\n")))
}

/// Whether a list names a DataNode: by its machine's name or address, with or without the port of its transfer service.
fn names(list: &BTreeSet<String>, node: &DatanodeInfo) -> bool {
    let (address, port) = node.transfer_address.rsplit_once(':').unwrap_or_default();
    [
        address.to_owned(),
        node.host.clone(),
        node.transfer_address.clone(),
        format!("{}:{port}", node.host),
    ]
    .iter()
    .any(|name| list.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str], properties: &[(&str, &str)]) -> Result<Options> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Options::parse(&words, &properties.iter().map(own).collect::<Vec<_>>())
    }

    fn node(address: &str, host: &str) -> DatanodeInfo {
        let (transfer_address, host) = (address.to_owned(), host.to_owned());
        DatanodeInfo { transfer_address, host, ..DatanodeInfo::default() }
    }

    #[test]
    fn numbers() {
        let figures = |words: &[&str]| {
            parsed(words, &[]).ok().map(|options| (options.threshold, options.idle_iterations_max))
        };
        assert_eq!(figures(&[]), Some((10.0, Some(5))));
        assert_eq!(figures(&["-threshold", "2.5"]), Some((2.5, Some(5))));
        assert_eq!(figures(&["-idleiterations", "1", "-threshold", "100"]), Some((100.0, Some(1))));
        assert_eq!(figures(&["-idleiterations", "-1", "-policy", "BlockPool"]), Some((10.0, None)));
        for bad in [
            &["-threshold"][..],
            &["-threshold", "0"],
            &["-threshold", "x"],
            &["-x", "1"],
            &["-policy", "rack"],
            &["-exclude", ","],
            &["-exclude", "a", "-include", "b"],
            &["-source", "-f", "/no/such/file"],
        ] {
            assert!(parsed(bad, &[]).is_err(), "{bad:?}");
        }
        for (option, _) in REFUSED {
            let text = parsed(&[option, "1"], &[]).unwrap_err().to_string();
            assert!(text.starts_with(option) && text.contains("not supported"), "{text}");
        }
    }

    #[test]
    fn properties_are_read_or_refused() {
        let options = parsed(&[], &[(BYTES_KEY, "1g"), (MOVES_KEY, "3")]).unwrap();
        assert_eq!((options.bytes_per_node_max, options.moves_per_source), (1 << 30, 3));
        assert_eq!(parsed(&[], &[(MOVES_KEY, "100")]).unwrap().moves_per_source, MOVES_PER_SOURCE);
        for (key, value) in
            [(BYTES_KEY, "0"), (BYTES_KEY, "x"), (MOVES_KEY, "0"), (MOVES_KEY, "-1")]
        {
            assert!(parsed(&[], &[(key, value)]).unwrap_err().to_string().starts_with(key));
        }
        for key in KEYS {
            assert!(parsed(&[], &[(key, "1")]).unwrap() != Options::default(), "{key} is not read");
        }
    }

    #[test]
    fn lists_name_machines_and_ports() {
        let nodes =
            [node("10.0.0.1:9866", "a"), node("10.0.0.2:9866", "b"), node("10.0.0.2:9867", "b")];
        let part = |words: &[&str]| {
            let options = parsed(words, &[]).unwrap();
            nodes.each_ref().map(|node| (options.takes_part(node), options.may_give(node)))
        };
        assert_eq!(part(&["-exclude", "a"]), [(false, true), (true, true), (true, true)]);
        assert_eq!(part(&["-include", "10.0.0.2"]), [(false, true), (true, true), (true, true)]);
        assert_eq!(part(&["-include", "b:9867,a"]), [(true, true), (false, true), (true, true)]);
        assert_eq!(
            part(&["-source", "10.0.0.2:9866"]),
            [(true, false), (true, true), (true, false)]
        );
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("hosts");
        std::fs::write(&file, "a # the old one\n\n10.0.0.2:9867\n").unwrap();
        let words = ["-exclude", "-f", file.to_str().unwrap()];
        assert_eq!(part(&words), [(false, true), (true, true), (false, true)]);
        let known: Vec<&DatanodeInfo> = nodes.iter().collect();
        assert!(parsed(&words, &[]).unwrap().check_names(&known).is_ok());
        let slip = parsed(&["-source", "c"], &[]).unwrap().check_names(&known).unwrap_err();
        assert_eq!(slip.to_string(), "-source: no DataNode c is known");
    }
}
