//! Names under which clients may reach a daemon. A page elsewhere whose name is made to resolve here (DNS rebinding) must not read or change anything, so
//! requests to a foreign name are refused ([`crate::front`]).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::http::{HeaderMap, header};

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

    /// True if `host` is a name or an address of this daemon. An address cannot be made to point elsewhere, so every address is accepted; a name could be.
    pub fn allow(&self, host: &Host<'_>) -> bool {
        let name = host.name;
        self.any || name.parse::<IpAddr>().is_ok() || self.names.contains(&name.to_lowercase())
    }

    /// Where the operator lists further names.
    pub fn key(&self) -> &'static str {
        self.key
    }
}

/// The host that a request is for: `name`, `name:port`, `[address]` or `[address]:port`, and nothing else. So what becomes part of an address is a name or an
/// address of IPv4 or IPv6, without anything before or behind it that would lead elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host<'a> {
    /// Without brackets.
    name: &'a str,
    port: Option<u16>,
}

impl<'a> Host<'a> {
    /// Reads the value of a header `Host`; `None` if it is anything else.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (name, rest) = match text.strip_prefix('[') {
            Some(bracketed) => {
                let (address, rest) = bracketed.split_once(']')?;
                address.parse::<Ipv6Addr>().ok()?;
                (address, rest)
            }
            None => {
                let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
                is_name(name).then_some((name, rest))?
            }
        };
        let port = match rest {
            "" => None,
            rest => Some(port_of(rest.strip_prefix(':')?)?),
        };
        Some(Host { name, port })
    }

    /// The one that the header of a request names.
    pub fn of(headers: &'a HeaderMap) -> Option<Self> {
        Host::parse(headers.get(header::HOST)?.to_str().ok()?)
    }

    /// The same host at another port.
    pub fn at(self, port: u16) -> Self {
        Host { port: Some(port), ..self }
    }
}

/// As in an address: an IPv6 address has brackets.
impl fmt::Display for Host<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]", self.name)?,
            false => f.write_str(self.name)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// True for what a name or an IPv4 address is made of. Names with an underline are none in DNS, but machines have them.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
}

fn port_of(digits: &str) -> Option<u16> {
    // A sign would parse, too.
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The host of a configured `host:port`, without the brackets of an IPv6 address.
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
        ] {
            assert_eq!(hosts.allow(&Host::parse(host).unwrap()), allowed, "{host}");
        }
        let all = Hosts::new("[::1]:9870", &["*".to_owned()], "`hosts`");
        assert!(all.allow(&Host::parse("any.example").unwrap()));
    }

    #[test]
    fn a_host_is_a_name_or_an_address_with_nothing_around_it() {
        for good in [
            "localhost",
            "localhost:9870",
            "a_b-c.example:1",
            "xn--bcher-kva.example",
            "10.1.2.3:65535",
            "[::1]",
            "[fe80::1]:9870",
            "[::ffff:10.1.2.3]:80",
        ] {
            assert_eq!(Host::parse(good).unwrap().to_string(), good);
        }
        for bad in [
            "",
            ":80",
            "localhost:",
            "localhost:1@evil.example",
            "localhost@evil.example",
            "user:1@localhost:80",
            "localhost:80:80",
            "localhost:+80",
            "localhost:65536",
            "localhost: 80",
            "localhost/x",
            "localhost#x",
            "localhost?x",
            "localhost\\x",
            "localhost%00",
            "local host",
            "localhost\tx",
            "::1",
            "[::1",
            "[]",
            "[]:80",
            "[::1]anything",
            "[::1]80",
            "[::1]:",
            "[::1]:1@evil.example",
            "[::1@evil.example]",
            "[::1%25eth0]",
            "[localhost]",
            "[10.1.2.3]",
            "[[::1]]",
            "@localhost",
            "b\u{fc}cher.example",
        ] {
            assert_eq!(Host::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_host_keeps_its_form_at_another_port() {
        let at = |text: &str| Host::parse(text).unwrap().at(7).to_string();
        assert_eq!(at("files.example"), "files.example:7");
        assert_eq!(at("files.example:80"), "files.example:7");
        assert_eq!(at("[::1]:80"), "[::1]:7");
        assert_eq!(at("[fe80::1]"), "[fe80::1]:7");
    }

    proptest::proptest! {
        #[test]
        fn what_is_a_host_is_one_in_an_address_and_leads_to_itself(text in "[a-z0-9.:@/?#%_\\[\\]-]{0,20}") {
            let Some(host) = Host::parse(&text) else { return Ok(()) };
            let address: axum::http::Uri = format!("http://{host}/").parse().unwrap();
            let named = address.host().unwrap();
            proptest::prop_assert_eq!(named.trim_matches(['[', ']']), host.name);
            proptest::prop_assert_eq!(address.port_u16(), host.port);
        }
    }
}
