//! Hadoop's configuration files (`core-site.xml`, …): one strict reader for `-conf`, `--config` and `HADOOP_CONF_DIR`.
//!
//! ```xml
//! <configuration>
//!   <property><name>dfs.replication</name><value>2</value><final>true</final></property>
//!   <property name="dfs.blocksize" value="64m"/>
//! </configuration>
//! ```
//!
//! Invariants: whoever reads a file has all of its properties or an error that names the file; a later value wins unless an earlier file calls its own final;
//! what a value can grow to by references is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;

/// Largest file that is read (4 MiB): a hundred times the longest of Hadoop's.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// How many levels deep values can refer to others, as in Hadoop.
const DEPTH_MAX: usize = 20;
/// Longest value with its references replaced (1 MiB): a value that refers twice to one that refers twice, and so on, would otherwise grow
/// exponentially.
const VALUE_BYTES_MAX: usize = 1 << 20;
/// Elements of a property besides its name and value; `source` and `tag` say nothing to a program.
const MARKS: [&str; 5] = ["description", "final", "source", "tag", "tags"];

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// It is not one of Hadoop's configuration files, or not whole.
    #[error("{}: {reason}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Place and mistake.
        reason: String,
    },
    /// A value refers to too much.
    #[error("property {name} is longer than {VALUE_BYTES_MAX} bytes with what it refers to")]
    Long {
        /// Its property.
        name: String,
    },
}

/// The properties of some files together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Site {
    values: BTreeMap<String, String>,
    finals: BTreeSet<String>,
    /// Values that count for nothing, because an earlier file calls its own final: file and property.
    pub overruled: Vec<(PathBuf, String)>,
}

impl Site {
    /// The properties of these files, in order.
    ///
    /// # Errors
    /// [`SiteError::Read`], [`SiteError::Parse`].
    pub fn of_files(paths: &[impl AsRef<Path>]) -> Result<Self, SiteError> {
        let mut site = Site::default();
        for path in paths {
            let path = path.as_ref();
            let text = text_of(path)?;
            let parsed = parse(&text);
            let properties =
                parsed.map_err(|reason| SiteError::Parse { path: path.to_owned(), reason })?;
            for property in properties {
                if site.finals.contains(&property.name) {
                    site.overruled.push((path.to_owned(), property.name));
                    continue;
                }
                if property.is_final {
                    site.finals.insert(property.name.clone());
                }
                site.values.insert(property.name, property.value);
            }
        }
        Ok(site)
    }

    /// Names and values, by name, with the references in values replaced.
    ///
    /// # Errors
    /// [`SiteError::Long`].
    pub fn resolved(&self) -> Result<Vec<(String, String)>, SiteError> {
        let mut all = Vec::new();
        for (name, value) in &self.values {
            let (mut out, mut left) = (String::new(), VALUE_BYTES_MAX);
            resolve(value, &self.values, 0, &mut left, &mut out)
                .ok_or_else(|| SiteError::Long { name: name.clone() })?;
            all.push((name.clone(), out));
        }
        Ok(all)
    }
}

/// Parses arbitrary text; how many properties it has.
#[cfg(any(test, fuzzing))]
pub(crate) fn take(text: &str) -> Result<usize, String> {
    let properties = parse(text)?;
    let values = properties.into_iter().map(|property| (property.name, property.value));
    let site = Site { values: values.collect(), ..Site::default() };
    site.resolved().map(|all| all.len()).map_err(|error| error.to_string())
}

fn text_of(path: &Path) -> Result<String, SiteError> {
    let fail = |source| SiteError::Read { path: path.to_owned(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(fail)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(fail)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let reason = format!("longer than {FILE_BYTES_MAX} bytes");
        return Err(SiteError::Parse { path: path.to_owned(), reason });
    }
    Ok(text)
}

/// A property with a value.
#[derive(PartialEq, Eq, Debug)]
struct Property {
    name: String,
    value: String,
    is_final: bool,
}

/// The properties of a file's text, in order. The error says what is wrong, and where.
fn parse(text: &str) -> Result<Vec<Property>, String> {
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let mut tree = Tree::default();
    loop {
        let event = reader.read_event();
        let line = || {
            let end = usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX);
            let before = text.as_bytes().iter().take(end);
            before.filter(|byte| **byte == b'\n').count() + 1
        };
        let at_line = |reason: String| format!("line {}: {reason}", line());
        let event = event.map_err(|error| at_line(error.to_string()))?;
        let is_end = matches!(event, Event::Eof);
        tree.take(event).map_err(at_line)?;
        if is_end {
            return Ok(tree.properties);
        }
    }
}

/// What is open, and what is read of it.
#[derive(Default)]
struct Tree {
    properties: Vec<Property>,
    open: Vec<String>,
    /// The text of the innermost element.
    content: String,
    name: Option<String>,
    value: Option<String>,
    is_final: bool,
    has_root: bool,
}

impl Tree {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Start(start) => self.start(&start),
            Event::Empty(start) => {
                self.start(&start)?;
                self.end()
            }
            Event::End(_) => self.end(),
            Event::Text(text) => self.text(&text.xml10_content()),
            Event::CData(text) => self.text(&text.xml10_content()),
            Event::GeneralRef(entity) => {
                let plain = plain(&entity)?;
                self.text(&plain)
            }
            Event::Eof => match self.open.last() {
                Some(open) => Err(format!("`{open}` is not closed")),
                None if self.has_root => Ok(()),
                None => Err("there is no `configuration` in it".to_owned()),
            },
            Event::Decl(_) | Event::PI(_) | Event::DocType(_) | Event::Comment(_) => Ok(()),
        }
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        let name = start.name().0.to_owned();
        match (self.open.len(), name.as_str()) {
            (_, "include" | "xi:include") => {
                return Err(format!("`{name}` is not read here; name both files"));
            }
            (0, "configuration") if !self.has_root => self.has_root = true,
            // Hadoop nests configurations, too.
            (1, "configuration" | "property") => {}
            (2.., "property") if self.open.last().is_some_and(|last| last == "configuration") => {}
            (2.., "name" | "value") if self.in_property() => {}
            (2.., mark) if self.in_property() && MARKS.contains(&mark) => {}
            _ => {
                let place = self.open.last().map_or("the file", |last| last);
                return Err(format!("`{name}` has no place in `{place}`"));
            }
        }
        if name == "property" {
            (self.name, self.value, self.is_final) = (None, None, false);
            self.attributes(start)?;
        }
        self.open.push(name);
        self.content.clear();
        Ok(())
    }

    fn in_property(&self) -> bool {
        self.open.last().is_some_and(|last| last == "property")
    }

    /// A property can have its parts as attributes.
    fn attributes(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let value = attribute.normalized_value(XmlVersion::default());
            let value = value.map_err(|error| error.to_string())?;
            let key = attribute.key.0.to_owned();
            self.part(&key, value.into_owned())?;
        }
        Ok(())
    }

    /// A part of the property that is read.
    fn part(&mut self, part: &str, text: String) -> Result<(), String> {
        match part {
            "name" => self.name = Some(text.trim().to_owned()),
            "value" => self.value = Some(text),
            "final" => self.is_final = text.trim() == "true",
            _ if MARKS.contains(&part) => {}
            _ => return Err(format!("a property has no attribute `{part}`")),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), String> {
        let takes_text = self.open.len() > 1
            && !matches!(self.open.last().map(String::as_str), Some("configuration" | "property"));
        match takes_text {
            true => self.content.push_str(text),
            false if text.trim().is_empty() => {}
            false => return Err(format!("`{}` stands outside of elements", shortened(text))),
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let Some(closed) = self.open.pop() else {
            return Err("an element is closed that is not open".to_owned());
        };
        match closed.as_str() {
            "configuration" => {}
            "property" => {
                let name = self.name.take().filter(|name| !name.is_empty());
                let name = name.ok_or("a property has no name")?;
                let is_final = self.is_final;
                let property = self.value.take().map(|value| Property { name, value, is_final });
                self.properties.extend(property);
            }
            part => {
                let text = std::mem::take(&mut self.content);
                self.part(part, text)?;
            }
        }
        Ok(())
    }
}

/// The first letters of a text, for a message.
fn shortened(text: &str) -> String {
    const LETTERS_MAX: usize = 20;
    text.trim().chars().take(LETTERS_MAX).collect()
}

/// The text that an entity stands for.
fn plain(entity: &BytesRef<'_>) -> Result<String, String> {
    if let Some(letter) = entity.resolve_char_ref().map_err(|error| error.to_string())? {
        return Ok(letter.to_string());
    }
    let name = entity.xml10_content();
    let known = resolve_predefined_entity(&name);
    known.map(str::to_owned).ok_or_else(|| format!("`&{name};` is not known"))
}

/// Appends a value with `${name}` and `${env.NAME}` replaced where they are known; `None` if that takes more than `left` bytes and
/// references.
fn resolve(
    value: &str,
    values: &BTreeMap<String, String>,
    depth: usize,
    left: &mut usize,
    out: &mut String,
) -> Option<()> {
    let push = |text: &str, left: &mut usize, out: &mut String| {
        *left = left.checked_sub(text.len())?;
        out.push_str(text);
        Some(())
    };
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${").filter(|_| depth < DEPTH_MAX) {
        let Some((name, behind)) = after.split_once('}') else { break };
        push(before, left, out)?;
        *left = left.checked_sub(1)?;
        match (of_environment(name), values.get(name)) {
            (Some(text), _) => push(&text, left, out)?,
            (_, Some(value)) => resolve(value, values, depth + 1, left, out)?,
            _ => push(&format!("${{{name}}}"), left, out)?,
        }
        rest = behind;
    }
    push(rest, left, out)
}

/// What Hadoop takes from the process: `env.NAME`, with `-DEFAULT` for a variable that is not set and `:-DEFAULT` also for an empty one, and the names of
/// user and home.
fn of_environment(name: &str) -> Option<String> {
    match name {
        "user.name" => return Some(sys::host::user_name()),
        "user.home" => return Some(std::env::home_dir()?.to_string_lossy().into_owned()),
        _ => {}
    }
    let variable = name.strip_prefix("env.")?;
    let (variable, default) = match variable.split_once('-') {
        Some((variable, default)) => (variable, Some(default)),
        None => (variable, None),
    };
    let (variable, takes_empty) = match variable.strip_suffix(':') {
        Some(variable) => (variable, false),
        None => (variable, true),
    };
    let text = std::env::var_os(variable).map(|text| text.to_string_lossy().into_owned());
    text.filter(|text| takes_empty || !text.is_empty()).or(default.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        let values = parse(text).unwrap().into_iter().map(|p| (p.name, p.value)).collect();
        Site { values, ..Site::default() }.resolved().unwrap()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn all_forms_of_hadoops_files_are_read() {
        let text = "\u{feff}<?xml version=\"1.0\"?>\n<?xml-stylesheet type=\"text/xsl\" href=\"configuration.xsl\"?>\n\
            <!-- <property><name>no</name><value>no</value></property> --><configuration>\n\
            <property><name> a.b </name><value>x &lt;&#65;&amp;amp;</value><final>true</final></property>\n\
            <property><value>${a.b}/${c}/${no.such}</value><description>a <!-- b --> c</description><name>d</name></property>\n\
            <property><name>c</name><value><![CDATA[<1>]]></value></property><property><name>e</name></property>\n\
            <property><name>f</name><value/></property><property name='g' value=\"&lt;2&gt;\" final='true'/>\n\
            <property name='h'><value>3</value></property></configuration>\n";
        let expected = [
            ("a.b", "x <A&amp;"),
            ("c", "<1>"),
            ("d", "x <A&amp;/<1>/${no.such}"),
            ("f", ""),
            ("g", "<2>"),
            ("h", "3"),
        ];
        assert_eq!(read(text), pairs(&expected));
    }

    #[test]
    fn the_environment_is_referred_to_as_in_hadoop() {
        let property = |value: &str| {
            format!("<configuration><property name='a' value='{value}'/></configuration>")
        };
        let path = std::env::var("PATH").unwrap();
        for (value, expected) in [
            ("${env.PATH}", path.as_str()),
            ("${env.PATH:-x}", &path),
            ("${env.HANNO_NO_SUCH-x}", "x"),
            ("${env.HANNO_NO_SUCH:-x-y}", "x-y"),
            ("${env.HANNO_NO_SUCH}", "${env.HANNO_NO_SUCH}"),
            ("/tmp/${user.name}", &format!("/tmp/{}", sys::host::user_name())),
        ] {
            assert_eq!(read(&property(value)), pairs(&[("a", expected)]));
        }
    }

    #[test]
    fn a_final_value_stays_and_what_it_overrules_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, properties: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, format!("<configuration>{properties}</configuration>")).unwrap();
            path
        };
        let first =
            file("1", "<property name='a' value='1' final='true'/><property name='b' value='1'/>");
        let second = file("2", "<property name='a' value='2'/><property name='b' value='2'/>");
        let site = Site::of_files(&[first, second.clone()]).unwrap();
        assert_eq!(site.resolved().unwrap(), pairs(&[("a", "1"), ("b", "2")]));
        assert_eq!(site.overruled, [(second, "a".to_owned())]);
    }

    #[test]
    fn values_that_refer_to_each_other_end() {
        let property = |name: &str, value: &str| {
            format!("<property><name>{name}</name><value>{value}</value></property>")
        };
        let file = |last: &str| {
            let chain: String = (0..25)
                .map(|n| property(&format!("p{n}"), &format!("${{p{}}}", n + 1).repeat(10)))
                .collect();
            format!("<configuration>{chain}{}</configuration>", property("p25", last))
        };
        for text in [file("x"), file("")] {
            let error = take(&text).unwrap_err();
            assert!(error.starts_with("property p"), "{error}");
        }
        let itself = format!("<configuration>{}</configuration>", property("a", "1${a}"));
        assert_eq!(take(&itself), Ok(1));
    }

    #[test]
    fn damage_is_named() {
        for (text, part) in [
            ("", "no `configuration`"),
            ("banana", "`banana` stands outside"),
            ("<configuration>", "`configuration` is not closed"),
            ("<configuration><property></configuration>", "expected `</property>`"),
            ("<configuration><property><value>1</value></property></configuration>", "no name"),
            ("<configuration>&bad;</configuration>", "`&bad;`"),
            ("<configuration><property><name>a&b</name></property></configuration>", "reference"),
            ("<configuration><property nam='a'/></configuration>", "no attribute `nam`"),
            ("<configuration><property name='a' name='b'/></configuration>", "duplicate"),
            ("<configuration><xi:include href='b.xml'/></configuration>", "`xi:include`"),
            (
                "<configuration><property><name/><value>1</value></property></configuration>",
                "no name",
            ),
            (
                "<configuration><propery><name>a</name></propery></configuration>",
                "`propery` has no place",
            ),
            ("<configuration><name>a</name></configuration>", "`name` has no place"),
            ("<configuration><property>a</property></configuration>", "stands outside"),
            ("<configuration/><configuration/>", "has no place"),
            ("<config/>", "`config` has no place in `the file`"),
            ("<configuration>\n\n<a/></configuration>", "line 3: "),
            ("<configuration", "line 1: "),
            ("<!-- <configuration/>", "line 1: "),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let missing = Site::of_files(&["/no/such.xml"]).unwrap_err();
        assert_eq!(missing.to_string(), "cannot read /no/such.xml");
    }
}
