//! Names under which clients may reach a daemon. A page elsewhere whose name is made to resolve here (DNS rebinding) must not read or change anything, so
//! requests to a foreign name are refused ([`crate::front`]).

use std::net::IpAddr;
use std::sync::Arc;

/// The names. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Hosts {
    names: Arc<Vec<String>>,
    any: bool,
    key: &'static str,
}

impl Hosts {
    /// `localhost`, this machine, the host of `advertised` (`host:port`), and the names that the operator allows under `key` of the configuration; `*` allows
    /// all.
    pub fn new(advertised: &str, more: &[String], key: &'static str) -> Hosts {
        let own =
            ["localhost".to_owned(), sys::host::host_name(), host_part(advertised).to_owned()];
        let names = own.into_iter().chain(more.iter().cloned());
        let names: Vec<String> = names.map(|name| name.to_lowercase()).collect();
        let any = names.iter().any(|name| name == "*");
        Hosts { names: Arc::new(names), any, key }
    }

    /// True if `host` (`host:port`) is a name or an address of this daemon. An address cannot be made to point elsewhere, so every address is accepted; a name
    /// could be.
    pub fn allow(&self, host: &str) -> bool {
        let host = host_part(host);
        self.any || host.parse::<IpAddr>().is_ok() || self.names.contains(&host.to_lowercase())
    }

    /// Where the operator lists further names.
    pub fn key(&self) -> &'static str {
        self.key
    }
}

/// The host of `host:port`, without the brackets of an IPv6 address.
pub fn host_part(text: &str) -> &str {
    match text.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => text.split(':').next().unwrap_or(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_names_are_not_served() {
        let hosts = Hosts::new("nn.local:9870", &["Files.example".to_owned()], "`hosts`");
        for (host, allowed) in [
            ("localhost:9870", true),
            ("127.0.0.1:9870", true),
            ("[::1]:9870", true),
            ("10.1.2.3", true),
            ("NN.local", true),
            ("files.EXAMPLE:80", true),
            ("evil.example:9870", false),
            ("localhost.evil.example", false),
            ("", false),
        ] {
            assert_eq!(hosts.allow(host), allowed, "{host}");
        }
        assert!(Hosts::new("[::1]:9870", &["*".to_owned()], "`hosts`").allow("any.example"));
    }
}
