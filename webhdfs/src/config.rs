//! What an operator decides about WebHDFS: the table `[webhdfs]` in the configuration of a NameNode, DataNode or gateway.

use std::collections::BTreeMap;

pub use daemon::access::{Auth, SIMPLE_WARNING};
use serde::{Deserialize, Serialize};

/// Where an operator lists further names of a daemon with WebHDFS.
pub const HOSTS_KEY: &str = "`hosts` in [webhdfs]";

/// The table.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `"token"` or `"simple"`. Default `"token"`: under `"simple"`, even on loopback, every user of the machine and every task of a job
    /// could claim to be anybody. Must be the same on NameNode and DataNodes.
    pub auth: Auth,
    /// Names (not addresses) by which this daemon may be called beside `localhost`, its machine's name and its advertised
    /// name: a web page of another name must not reach a daemon through a browser (DNS rebinding). `"*"` allows all.
    pub hosts: Vec<String>,
    /// Users who may act for others with `doas`, and for whom; `"*"` is everybody. Default: nobody.
    pub proxy_users: BTreeMap<String, Vec<String>>,
}

impl Config {
    /// Logs what an operator has to know; called when a daemon starts with this configuration.
    pub fn warn(&self) {
        if self.auth == Auth::Simple {
            tracing::warn!("{SIMPLE_WARNING}");
        }
    }

    /// True if `user` may act for `other`.
    pub fn may_impersonate(&self, user: &str, other: &str) -> bool {
        let allowed = self.proxy_users.get(user);
        allowed.is_some_and(|list| list.iter().any(|name| name == "*" || name == other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_believed_by_order_only() {
        let config: Config = serde_json::from_str("{}").unwrap();
        assert_eq!((config.auth, Config::default().auth), (Auth::Token, Auth::Token));
        let config: Config = serde_json::from_str(r#"{"auth":"simple"}"#).unwrap();
        assert_eq!(config.auth, Auth::Simple);
        assert!(serde_json::from_str::<Config>(r#"{"auth":"none"}"#).is_err());
    }
}
