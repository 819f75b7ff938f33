//! The configuration as `/conf` lists it: every key of ours, and Hadoop's names for those that tools ask for.

use daemon::inspect::{Setting, settings};

use crate::config::Config;

/// Milliseconds of a minute, the unit of `fs.trash.interval`.
const MINUTE_MS: u64 = 60_000;

/// All settings.
pub(crate) fn of(config: &Config) -> Vec<Setting> {
    let default = Config::default();
    let address = config.advertised();
    let mut found = vec![
        Setting::hadoop("fs.defaultFS", format!("webhdfs://{address}"), false),
        Setting::hadoop("dfs.namenode.http-address", address, false),
        Setting::hadoop("dfs.webhdfs.enabled", true, true),
        Setting::hadoop("dfs.checksum.type", "CRC32C", true),
        Setting::hadoop("dfs.bytes-per-checksum", protocol::checksum::CHUNK_BYTES, true),
        Setting::hadoop(
            "dfs.namenode.name.dir",
            config.data_dir.display(),
            config.data_dir == default.data_dir,
        ),
    ];
    let numbers = [
        ("dfs.replication", u64::from(config.replication), u64::from(default.replication)),
        ("dfs.blocksize", config.block_size, default.block_size),
        ("dfs.namenode.fs-limits.min-block-size", config.block_size_min, default.block_size_min),
        ("dfs.ls.limit", u64::from(config.list_limit), u64::from(default.list_limit)),
        ("dfs.heartbeat.interval", config.heartbeat_ms / 1000, default.heartbeat_ms / 1000),
        ("dfs.namenode.stale.datanode.interval", config.stale_ms, default.stale_ms),
        (
            "fs.trash.interval",
            config.trash_interval_ms / MINUTE_MS,
            default.trash_interval_ms / MINUTE_MS,
        ),
    ];
    found
        .extend(numbers.map(|(key, value, default)| Setting::hadoop(key, value, value == default)));
    found.extend(settings("namenode", config));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hadoops_names_and_ours() {
        let config = Config { replication: 2, ..Config::default() };
        let all = of(&config);
        let value = |key: &str| {
            let setting = all.iter().find(|setting| setting.key == key).unwrap();
            (setting.value.as_str(), setting.is_default)
        };
        assert_eq!(value("dfs.replication"), ("2", false));
        assert_eq!(value("hanno.namenode.replication"), ("2", false));
        assert_eq!(value("dfs.blocksize"), ("134217728", true));
        assert_eq!(value("fs.trash.interval"), ("1440", true));
        assert_eq!(value("hanno.namenode.durability"), ("disk", true));
        let names: std::collections::BTreeSet<&str> =
            all.iter().map(|setting| setting.key.as_str()).collect();
        assert_eq!(names.len(), all.len());
    }
}
