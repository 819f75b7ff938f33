//! What the daemons of the cluster tell: the report, figures and settings.

use std::io::Write;

use anyhow::{Context, Result, bail};
use client::ClientConfig;
use protocol::address::url_of;
use protocol::namenode::DatanodeState;
use serde_json::Value;
use transport::rpc::runtime;

use super::bundle::Bundle;
use super::scrub::{Kind, LEFT_OUT, is_secret_name};
use crate::connect::{self, Overrides};
use crate::dfsadmin::{Session, report};

/// Most bytes of one answer of a daemon: figures have a few kilobytes.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// Most daemons of one kind that are asked: each answer takes its time.
const DAEMONS_MAX: usize = 64;

/// Packs what can be had.
pub(super) fn pack<W: Write>(
    bundle: &mut Bundle<W>,
    config: &ClientConfig,
    overrides: &Overrides,
) -> Result<()> {
    let mut daemons = Vec::new();
    if let Some(address) = &config.namenode {
        daemons.push(("namenode".to_owned(), address.clone()));
        bundle.add("report.json", Kind::Facts, cluster_report(overrides))?;
        daemons.extend(numbered(bundle, "datanode", datanodes(config)));
    } else {
        bundle.lacks("namenode", "no NameNode is known; name one by --namenode");
    }
    if let Some(address) = &config.jobtracker {
        daemons.push(("jobtracker".to_owned(), address.clone()));
        let workers = connect::job_client(config).and_then(|client| Ok(client.workers()?));
        if let Ok(workers) = &workers {
            let text = serde_json::to_string_pretty(workers).map_err(Into::into);
            bundle.add("workers.json", Kind::Facts, text)?;
        }
        let addresses = workers.map(|workers| {
            workers.into_iter().map(|worker| url_of(&worker.http_address)).collect()
        });
        daemons.extend(numbered(bundle, "worker", addresses));
    } else {
        bundle.lacks("jobtracker", "no JobTracker is known; name one by --jobtracker");
    }
    for (name, address) in daemons {
        let figures = connect::open_to_all(&address, "/metrics", ANSWER_BYTES_MAX + 1);
        let figures = figures.and_then(|text| match text.len() as u64 > ANSWER_BYTES_MAX {
            true => bail!("they have over {} MiB", ANSWER_BYTES_MAX >> 20),
            false => Ok(text),
        });
        bundle.add(&format!("metrics/{name}.txt"), Kind::Facts, figures)?;
        let settings = settings(config, &address);
        let settings = settings.and_then(|text| without_secrets(&text));
        bundle.add(&format!("conf/{name}.txt"), Kind::Facts, settings)?;
    }
    Ok(())
}

/// Names for daemons of a kind, as many as are asked; the rest, or that there are none to be had, is noted.
fn numbered<W: Write>(
    bundle: &mut Bundle<W>,
    kind: &str,
    addresses: Result<Vec<String>>,
) -> Vec<(String, String)> {
    let addresses = addresses.unwrap_or_else(|error| {
        bundle.lacks(&format!("{kind}s"), &connect::describe(error.as_ref()));
        Vec::new()
    });
    if addresses.len() > DAEMONS_MAX {
        let more = format!("only the first {DAEMONS_MAX} of {} were asked", addresses.len());
        bundle.lacks(&format!("{kind}s"), &more);
    }
    let named = |(number, address)| (format!("{kind}-{number}"), address);
    (1..).zip(addresses).take(DAEMONS_MAX).map(named).collect()
}

fn cluster_report(overrides: &Overrides) -> Result<String> {
    let session = Session::open(overrides).map_err(|failure| anyhow::anyhow!("{failure}"))?;
    let value = report::as_value(&session).map_err(|failure| anyhow::anyhow!("{failure}"))?;
    Ok(serde_json::to_string_pretty(&value)?)
}

/// The addresses of DataNodes that may answer.
fn datanodes(config: &ClientConfig) -> Result<Vec<String>> {
    let nodes = connect::file_system(config)?.datanodes()?;
    let alive = nodes.into_iter().filter(|node| node.state != DatanodeState::Dead);
    Ok(alive.map(|node| url_of(&node.info.http_address)).collect())
}

fn settings(config: &ClientConfig, address: &str) -> Result<String> {
    let rpc = connect::daemon(config, address)?;
    let answer = runtime().block_on(async {
        rpc.get_as(&config.user(), "/conf?format=json").await?.at_most(ANSWER_BYTES_MAX).await
    });
    Ok(String::from_utf8_lossy(&answer?).into_owned())
}

/// Settings as `KEY = VALUE`, a line each.
fn without_secrets(text: &str) -> Result<String> {
    let answer: Value = serde_json::from_str(text).context("the settings are not JSON")?;
    let properties = answer["properties"].as_array().context("there are no settings")?;
    let mut lines = String::new();
    for property in properties {
        let word = |name: &str| property[name].as_str().unwrap_or_default();
        let key = word("key");
        let value = if is_secret_name(key) { LEFT_OUT } else { word("value") };
        lines.push_str(&format!("{key} {value} ({})\n", word("resource")));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_lead_to_secrets_are_left_out() {
        let text = r#"{"properties": [
            {"key": "hanno.x.bind", "value": "127.0.0.1:1", "resource": "default"},
            {"key": "hanno.x.secret_file", "value": "/s", "resource": "configuration"},
            {"key": "hanno.x.tls.key", "value": "/k", "resource": "configuration"}]}"#;
        let expected = "hanno.x.bind 127.0.0.1:1 (default)\nhanno.x.secret_file (left out) (configuration)\n\
                        hanno.x.tls.key (left out) (configuration)\n";
        assert_eq!(without_secrets(text).unwrap(), expected);
        for wrong in ["", "<x/>", "{}"] {
            assert!(without_secrets(wrong).is_err(), "{wrong}");
        }
    }
}
