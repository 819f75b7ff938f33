//! `-conf FILE`: properties from one of Hadoop's configuration files.
//!
//! ```text
//! <configuration> <property> <name>dfs.replication</name> <value>2</value> </property> … </configuration>
//! ```
//!
//! This is all it reads of XML: elements, comments, the five named entities. It skips everything else.

use std::path::Path;

use super::fs::Failure;

/// Named entities.
const ENTITIES: [(&str, &str); 5] =
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];

/// Properties of the files that `-conf` names, in order.
pub(crate) fn of_files(files: &[impl AsRef<Path>]) -> Result<Vec<(String, String)>, Failure> {
    let mut all = Vec::new();
    for path in files {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| Failure::local(path, &error))?;
        all.extend(properties(&text));
    }
    Ok(all)
}

fn properties(text: &str) -> Vec<(String, String)> {
    let text = without_comments(text);
    let mut found = Vec::new();
    let mut rest = &text[..];
    while let Some((property, after)) = element(rest, "property") {
        if let (Some((name, _)), Some((value, _))) =
            (element(property, "name"), element(property, "value"))
        {
            found.push((decoded(name.trim()), decoded(value.trim())));
        }
        rest = after;
    }
    found
}

/// Content of the first element of this name, and the text after it.
fn element<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>"))
}

fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        out.push_str(before);
        rest = comment.split_once("-->").map_or("", |(_, after)| after);
    }
    out + rest
}

fn decoded(text: &str) -> String {
    ENTITIES.iter().fold(text.to_owned(), |text, (entity, plain)| text.replace(entity, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_hadoops_are_read() {
        let text = "<?xml version=\"1.0\"?>\n<configuration>\n<!-- <property><name>a</name><value>no</value></property> -->\n\
            <property>\n <name>dfs.replication</name>\n <value>2</value>\n</property>\n\
            <property><name>x</name><value>a &lt; b &amp;amp; c</value><final>true</final></property>\n\
            <property><name>no.value</name></property></configuration>";
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(properties(text), [pair("dfs.replication", "2"), pair("x", "a < b &amp; c")]);
        for broken in ["", "<property><name>a", "<!-- <property>", "</property><property>"] {
            assert_eq!(properties(broken), []);
        }
    }
}
