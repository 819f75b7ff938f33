//! The rack of a machine: from a table, from a script (as `net.topology.script.file.name`), else as the DataNode reports it.
//!
//! The script is called with names of machines and prints one rack for each, in order, separated by white space. Answers are kept until the
//! lists of DataNodes are read again. A script that fails, takes too long or answers something else puts the machine on the default rack,
//! with a line in the log. It is asked again at the next registration.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use parking_lot::Mutex;
use protocol::namenode::DatanodeInfo;

use crate::config::Config;

/// Rack of machines about which nothing is known.
pub(crate) const DEFAULT_RACK: &str = "/default-rack";
/// Time for the script. It holds up the registration of a DataNode, nothing else.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest name of a rack, bytes.
const RACK_BYTES_MAX: usize = 255;
/// Most machines that are remembered; once there are this many, all are forgotten.
const CACHE_MAX: usize = 100_000;

/// Finds racks.
pub(crate) struct Topology {
    script: Option<PathBuf>,
    table: Option<PathBuf>,
    known: Mutex<HashMap<String, String>>,
}

impl Topology {
    pub(crate) fn new(config: &Config) -> Self {
        let (script, table) = (config.topology_script.clone(), config.topology_table.clone());
        Topology { script, table, known: Mutex::default() }
    }

    /// Forgets what was answered.
    pub(crate) fn forget(&self) {
        self.known.lock().clear();
    }

    /// The rack of a DataNode that registers.
    pub(crate) async fn rack_of(&self, info: &DatanodeInfo) -> String {
        if self.script.is_none() && self.table.is_none() {
            return info.rack.clone();
        }
        let known = self.known.lock().get(&info.host).cloned();
        if let Some(rack) = known {
            return rack;
        }
        match self.look_up(info).await {
            Ok(rack) => {
                let mut known = self.known.lock();
                if known.len() >= CACHE_MAX {
                    known.clear();
                }
                known.insert(info.host.clone(), rack.clone());
                rack
            }
            Err(reason) => {
                tracing::error!(
                    host = info.host,
                    reason,
                    "cannot tell the rack of a machine: default rack"
                );
                DEFAULT_RACK.to_owned()
            }
        }
    }

    async fn look_up(&self, info: &DatanodeInfo) -> Result<String, String> {
        let address = info.transfer_address.as_str();
        let ip = address.rsplit_once(':').map_or(address, |(ip, _)| ip);
        if let Some(table) = &self.table {
            let text = tokio::fs::read_to_string(table)
                .await
                .map_err(|error| format!("cannot read {}: {error}", table.display()))?;
            let names = [info.host.as_str(), address, ip];
            return Ok(find_in_table(&text, &names).unwrap_or(DEFAULT_RACK).to_owned());
        }
        match &self.script {
            Some(script) => run(script, &info.host).await,
            None => Ok(DEFAULT_RACK.to_owned()),
        }
    }
}

/// The rack in the first line whose first word is one of `names`; `#` begins a comment.
pub(crate) fn find_in_table<'a>(text: &'a str, names: &[&str]) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let name = words.next()?;
        names.contains(&name).then(|| words.next()).flatten()
    })
}

async fn run(script: &Path, host: &str) -> Result<String, String> {
    // A name that looks like an option must not become one.
    if host.starts_with('-') || host.is_empty() {
        return Err(format!("`{host}` is no name of a machine"));
    }
    let child = tokio::process::Command::new(script)
        .arg(host)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(SCRIPT_TIMEOUT, child)
        .await
        .map_err(|_| format!("{} takes longer than {SCRIPT_TIMEOUT:?}", script.display()))?
        .map_err(|error| format!("cannot run {}: {error}", script.display()))?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", script.display(), output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    parse_rack(&text).ok_or_else(|| format!("{} printed no rack", script.display()))
}

/// One word that begins with a slash.
fn parse_rack(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    let rack = words.next().filter(|rack| rack.starts_with('/') && rack.len() <= RACK_BYTES_MAX)?;
    words.next().is_none().then(|| rack.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::core::nodes::info;

    #[test]
    fn tables_and_answers() {
        let text = "# racks\nhost1 /a  # first\nhost2\n10.0.0.1 /b\nhost1 /c\n";
        assert_eq!(find_in_table(text, &["host1"]), Some("/a"));
        assert_eq!(find_in_table(text, &["host9", "10.0.0.1"]), Some("/b"));
        assert_eq!(find_in_table(text, &["host2"]), None);
        assert_eq!(find_in_table(text, &["host3"]), None);
        for (text, rack) in [
            ("/a\n", Some("/a")),
            (" /dc/a ", Some("/dc/a")),
            ("a", None),
            ("", None),
            ("/a /b", None),
        ] {
            assert_eq!(parse_rack(text).as_deref(), rack, "{text}");
        }
    }

    #[tokio::test]
    async fn a_script_is_asked_once_per_machine_and_may_fail() {
        let directory = tempfile::tempdir().unwrap();
        let (script, calls) = (directory.path().join("racks"), directory.path().join("calls"));
        let text = format!(
            "#!/bin/sh\necho \"$@\" >> {}\n[ \"$1\" = host1 ] && echo /r1 || exit 3\n",
            calls.display()
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
        let config = Config { topology_script: Some(script), ..Config::default() };
        let topology = Topology::new(&config);
        for _ in 0..2 {
            assert_eq!(topology.rack_of(&info(1, "host1", "/own")).await, "/r1");
            assert_eq!(topology.rack_of(&info(2, "host2", "/own")).await, DEFAULT_RACK);
        }
        assert_eq!(fs::read_to_string(&calls).unwrap(), "host1\nhost2\nhost2\n");
        topology.forget();
        assert_eq!(topology.rack_of(&info(1, "host1", "/own")).await, "/r1");
        assert_eq!(fs::read_to_string(&calls).unwrap().lines().count(), 4);
        let none = Topology::new(&Config::default());
        assert_eq!(none.rack_of(&info(1, "host1", "/own")).await, "/own");
    }
}
