//! `-conf FILE`: properties from a file in Hadoop's form. The driver reads it; workers get its contents as `-D NAME=VALUE`.
//!
//! ```xml
//! <configuration><property><name>mapreduce.job.reduces</name><value>3</value></property></configuration>
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use mr_model::Error;

/// Largest file that is read (4 MiB): a hundred times the longest of Hadoop's.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// How many levels deep values can refer to others, as in Hadoop.
const DEPTH_MAX: usize = 20;
/// Longest value with its references replaced (1 MiB): a value that refers twice to one that refers twice, and so on, would otherwise grow
/// exponentially.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// A command line with each `-conf FILE` replaced by its properties, which come before everything else: `-D` wins wherever it stands.
pub(crate) fn expand(words: &[String]) -> Result<Vec<String>, Error> {
    let (mut properties, mut rest) = (BTreeMap::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--" => {
                rest.push(word.clone());
                rest.extend(words.by_ref().cloned());
            }
            "-conf" | "--conf" => {
                let file = words
                    .next()
                    .ok_or_else(|| Error::usage(format!("option {word} needs a value")))?;
                properties.extend(read(Path::new(file))?);
            }
            _ => rest.push(word.clone()),
        }
    }
    let mut given = Vec::new();
    for (name, value) in resolved(&properties).map_err(Error::usage)? {
        given.extend(["-D".to_owned(), format!("{name}={value}")]);
    }
    given.extend(rest);
    Ok(given)
}

/// Properties with the references in their values replaced.
fn resolved(properties: &BTreeMap<String, String>) -> Result<Vec<(&str, String)>, String> {
    let mut all = Vec::new();
    for (name, value) in properties {
        let (mut out, mut left) = (String::new(), VALUE_BYTES_MAX);
        resolve(value, properties, 0, &mut left, &mut out).ok_or_else(|| {
            format!("-conf: property {name} is longer than {VALUE_BYTES_MAX} bytes with what it refers to")
        })?;
        all.push((name.as_str(), out));
    }
    Ok(all)
}

/// Parses a file's text, for callers with arbitrary text.
#[cfg(any(test, fuzzing))]
pub(crate) fn take(text: &str) -> Result<usize, String> {
    let properties: BTreeMap<String, String> = parse(text)?.into_iter().collect();
    Ok(resolved(&properties)?.len())
}

fn read(path: &Path) -> Result<Vec<(String, String)>, Error> {
    let length = fs::metadata(path).map_err(Error::file("read", path))?.len();
    if length > FILE_BYTES_MAX {
        let text = format!("-conf {}: longer than {FILE_BYTES_MAX} bytes", path.display());
        return Err(Error::usage(text));
    }
    let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
    parse(&text).map_err(|what| Error::usage(format!("-conf {}: {what}", path.display())))
}

/// Names and values, in order.
fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let (mut properties, mut open) = (Vec::new(), Vec::<String>::new());
    let (mut name, mut value): (Option<String>, Option<String>) = (None, None);
    let (mut content, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('<') {
        content.push_str(&plain(&rest[..at])?);
        rest = &rest[at..];
        if let Some(cdata) = rest.strip_prefix("<![CDATA[") {
            let end = cdata.find("]]>").ok_or("a CDATA section does not end")?;
            content.push_str(&cdata[..end]);
            rest = &cdata[end + 3..];
            continue;
        }
        let (end, skip) = match rest {
            _ if rest.starts_with("<!--") => ("-->", true),
            _ if rest.starts_with("<?") => ("?>", true),
            _ => (">", rest.starts_with("<!")),
        };
        let length = rest.find(end).ok_or("an element does not end")? + end.len();
        let tag = &rest[1..length - 1];
        rest = &rest[length..];
        if skip {
            continue;
        }
        if let Some(closed) = tag.strip_prefix('/') {
            let opened = open.pop().ok_or("an element is closed that is not open")?;
            if opened != closed.trim() {
                return Err(format!("`{opened}` is closed as `{}`", closed.trim()));
            }
            let content = std::mem::take(&mut content);
            match (opened.as_str(), open.last().map(String::as_str)) {
                ("name", Some("property")) => name = Some(content.trim().to_owned()),
                ("value", Some("property")) => value = Some(content),
                ("property", _) => {
                    let name = name.take().filter(|name| !name.is_empty());
                    let name = name.ok_or("a property has no name")?;
                    properties.extend(value.take().map(|value| (name, value)));
                }
                _ => {}
            }
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (element, attributes) =
            tag.split_once(char::is_whitespace).map_or((tag, ""), |(name, more)| (name, more));
        match element {
            "include" | "xi:include" => return Err(format!("`{element}` is not read here")),
            "property" if is_empty || !attributes.trim().is_empty() => {
                return Err("a property has its name and value in elements of their own".to_owned());
            }
            "name" if is_empty => return Err("a property has no name".to_owned()),
            "value" if is_empty => value = Some(String::new()),
            _ => {}
        }
        if !is_empty {
            open.push(element.to_owned());
            content.clear();
        }
    }
    match open.last() {
        Some(open) => Err(format!("`{open}` is not closed")),
        None if text.contains("<configuration") => Ok(properties),
        None => Err("there is no `configuration` in it".to_owned()),
    }
}

/// Text with its entities replaced.
fn plain(text: &str) -> Result<String, String> {
    let mut parts = text.split('&');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (entity, rest) = part.split_once(';').ok_or("a `&` without `;`")?;
        let number = entity.strip_prefix('#').map(|number| match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => number.parse(),
        });
        out.push(match (entity, number) {
            ("lt", _) => '<',
            ("gt", _) => '>',
            ("amp", _) => '&',
            ("quot", _) => '"',
            ("apos", _) => '\'',
            (_, Some(Ok(code))) => {
                char::from_u32(code).ok_or_else(|| format!("`&{entity};` is no character"))?
            }
            _ => return Err(format!("`&{entity};` is not known")),
        });
        out.push_str(rest);
    }
    Ok(out)
}

/// Appends a value with `${name}` and `${env.NAME}` replaced where they are known; `None` if that takes more than `left` bytes and
/// references.
fn resolve(
    value: &str,
    properties: &BTreeMap<String, String>,
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
        match (name.strip_prefix("env.").and_then(std::env::var_os), properties.get(name)) {
            (Some(variable), _) => push(&variable.to_string_lossy(), left, out)?,
            (_, Some(value)) => resolve(value, properties, depth + 1, left, out)?,
            _ => push(&format!("${{{name}}}"), left, out)?,
        }
        rest = behind;
    }
    push(rest, left, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_the_place_of_its_option() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("site.xml");
        let text = "<?xml version=\"1.0\"?>\n<!-- <property> --><configuration>\n\
            <property><name> a.b </name><value>x &lt;&#65;&amp;</value><final>true</final></property>\n\
            <property><value>${a.b}/${c}/${no.such}</value><description>text</description><name>d</name></property>\n\
            <property><name>c</name><value><![CDATA[<1>]]></value></property><property><name>e</name></property>\n\
            <property><name>f</name><value/></property></configuration>";
        fs::write(&path, text).unwrap();
        let path = path.to_string_lossy();
        let words = ["in", "-conf", &path, "-D", "a.b=2", "--", "-conf"].map(str::to_owned);
        assert_eq!(
            expand(&words).unwrap(),
            [
                "-D",
                "a.b=x <A&",
                "-D",
                "c=<1>",
                "-D",
                "d=x <A&/<1>/${no.such}",
                "-D",
                "f=",
                "in",
                "-D",
                "a.b=2",
                "--",
                "-conf"
            ]
        );
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
            assert!(error.starts_with("-conf: property p"), "{error}");
        }
        let itself = format!("<configuration>{}</configuration>", property("a", "1${a}"));
        assert_eq!(take(&itself), Ok(1));
    }

    #[test]
    fn damage_is_named() {
        for (text, part) in [
            ("", "no `configuration`"),
            ("<configuration>", "`configuration` is not closed"),
            ("<configuration><property></configuration>", "closed as"),
            ("<configuration><property><value>1</value></property></configuration>", "no name"),
            ("<configuration>&bad;</configuration>", "`&bad;`"),
            ("<configuration><property name=\"a\" value=\"1\"/></configuration>", "of their own"),
            ("<configuration><property name='a'></property></configuration>", "of their own"),
            ("<configuration><xi:include href='b.xml'/></configuration>", "`xi:include`"),
            ("<configuration><property><name/><value>1</value></property>", "no name"),
            ("<configuration", "does not end"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let missing = ["-conf", "/no/such.xml"].map(str::to_owned);
        assert!(expand(&missing).unwrap_err().to_string().contains("/no/such.xml"));
        assert!(expand(&["-conf".to_owned()]).unwrap_err().to_string().contains("needs a value"));
    }
}
