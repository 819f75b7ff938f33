//! `hanno job -config`: the properties of a job as one of Hadoop's configuration files.

use anyhow::{Context, Result};
use client::job::JobClient;
use protocol::JobId;

use super::exit::unknown;
use crate::output::EXIT_OK;
use crate::xml::encoded;

/// Properties may hold values that only the job's owner may see.
const FILE_MODE: u32 = 0o600;

/// The JobTracker's status for a job that it does not know.
const NOT_FOUND: u16 = 404;

/// Writes the properties of a job into a file of this machine.
pub(super) fn write(client: &JobClient, id: JobId, file: &str) -> Result<u8> {
    let text = match client.properties(id) {
        Ok(properties) => text_of(&properties),
        Err(error) if error.status() == Some(NOT_FOUND) => {
            return Ok(unknown(&id.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    sys::fs::write_output(file.as_ref(), FILE_MODE, text.as_bytes())
        .with_context(|| format!("cannot write {file}"))?;
    Ok(EXIT_OK)
}

fn text_of(properties: &[(String, String)]) -> String {
    let mut text =
        "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n<configuration>\n"
            .to_owned();
    for (name, value) in properties {
        text.push_str(&format!(
            "<property><name>{}</name><value>{}</value><final>false</final></property>\n",
            encoded(name),
            encoded(value)
        ));
    }
    text + "</configuration>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let all = [pair("a.b", "x < y & \"z\""), pair("c", "")];
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("job.xml");
        std::fs::write(&file, text_of(&all)).unwrap();
        let read = crate::generic::properties_of(&[file]).unwrap();
        assert_eq!(read, all);
    }
}
