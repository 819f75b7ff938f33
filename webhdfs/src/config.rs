//! What an operator decides about WebHDFS: the table `[webhdfs]` in the configuration of a NameNode, DataNode or gateway.

use std::collections::BTreeMap;
use std::net::ToSocketAddrs;

use serde::{Deserialize, Serialize};

/// How a caller proves who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// `user.name` is believed, as in HDFS without Kerberos.
    Simple,
    /// A delegation token is needed.
    Token,
}

/// The table.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Default: `"simple"` where only this machine can connect, `"token"` elsewhere, because anybody can claim to be anybody
    /// under `"simple"`. Must be the same on NameNode and DataNodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Names (not addresses) by which this daemon may be called beside `localhost`, its machine's name and its advertised
    /// name: a web page of another name must not reach a daemon through a browser (DNS rebinding). `"*"` allows all.
    pub hosts: Vec<String>,
    /// Users who may act for others with `doas`, and for whom; `"*"` is everybody. Default: nobody.
    pub proxy_users: BTreeMap<String, Vec<String>>,
}

impl Config {
    /// How callers of a daemon that listens on `bind` prove who they are.
    pub fn auth_at(&self, bind: &str) -> Auth {
        self.auth.unwrap_or_else(|| {
            let loopback = bind
                .to_socket_addrs()
                .is_ok_and(|mut addresses| addresses.all(|address| address.ip().is_loopback()));
            if loopback { Auth::Simple } else { Auth::Token }
        })
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
    fn names_are_believed_only_on_loopback_or_by_order() {
        let config = Config::default();
        assert_eq!(config.auth_at("127.0.0.1:0"), Auth::Simple);
        assert_eq!(config.auth_at("[::1]:0"), Auth::Simple);
        assert_eq!(config.auth_at("0.0.0.0:0"), Auth::Token);
        assert_eq!(config.auth_at("no such host"), Auth::Token);
        let config = Config { auth: Some(Auth::Simple), ..config };
        assert_eq!(config.auth_at("0.0.0.0:0"), Auth::Simple);
    }
}
