//! Who calls: `user.name` where it is believed, and `doas`.

use axum::http::{HeaderMap, header};

use crate::config::Config;
use crate::error::{Exception, WebError};
use crate::json::locations::split_address;
use crate::query::Query;

/// Who calls without a name: somebody with no rights but everybody's.
pub const STATIC_USER: &str = "dr.who";
/// What a user's name looks like, as Hadoop writes it.
const USER_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9._-]*[$]?$";

/// The user of a request whose names are believed.
///
/// # Errors
/// If a name is none, or the caller may not act for another.
pub fn believed(query: &Query, config: &Config) -> Result<String, WebError> {
    let user = user_parameter(query, "user.name")?.unwrap_or(STATIC_USER);
    effective(user, query, config)
}

/// The user that `user` acts for.
///
/// # Errors
/// If it may not.
pub fn effective(user: &str, query: &Query, config: &Config) -> Result<String, WebError> {
    match user_parameter(query, "doas")? {
        Some(other) if other != user && !config.may_impersonate(user, other) => {
            let text = format!("User: {user} is not allowed to impersonate {other}");
            Err(WebError::new(Exception::Authorization, text))
        }
        Some(other) => Ok(other.to_owned()),
        None => Ok(user.to_owned()),
    }
}

fn user_parameter<'a>(query: &'a Query, name: &str) -> Result<Option<&'a str>, WebError> {
    match query.text(name) {
        Some(user) if !is_user(user) => {
            let problem =
                format!("Invalid value: \"{user}\" does not belong to the domain {USER_PATTERN}");
            Err(WebError::parameter(name, problem))
        }
        user => Ok(user),
    }
}

/// True if `name` matches [`USER_PATTERN`].
pub fn is_user(name: &str) -> bool {
    let name = name.strip_suffix('$').unwrap_or(name);
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Names by which a daemon may be called.
#[derive(Clone, Debug)]
pub struct Hosts {
    names: Vec<String>,
    any: bool,
}

impl Hosts {
    /// `localhost`, this machine, the host of `advertised`, and what the operator allows.
    pub fn new(config: &Config, advertised: &str) -> Self {
        let own = [
            "localhost".to_owned(),
            sys::host::host_name(),
            split_address(advertised).0.to_owned(),
        ];
        let names = own.into_iter().chain(config.hosts.iter().cloned());
        let names: Vec<String> = names.map(|name| name.to_lowercase()).collect();
        let any = names.iter().any(|name| name == "*");
        Hosts { names, any }
    }

    /// True if the request was sent to a name or address of this daemon. An address cannot be made to point elsewhere, so all
    /// are fine; a name could (DNS rebinding).
    pub fn allow(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(header::HOST) else { return true };
        let Ok(text) = value.to_str() else { return false };
        let host = host_part(text).to_lowercase();
        self.any || host.parse::<std::net::IpAddr>().is_ok() || self.names.contains(&host)
    }
}

/// The host that a client used, without the port.
pub fn host_part(text: &str) -> &str {
    match text.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => text.split(':').next().unwrap_or(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn names_are_checked_and_believed() {
        let config = Config {
            proxy_users: [
                ("hue".to_owned(), vec!["*".to_owned()]),
                ("etl".to_owned(), vec!["bob".to_owned()]),
            ]
            .into(),
            ..Config::default()
        };
        let user = |text: &str| believed(&Query::parse(text), &config);
        for (text, expected) in [
            ("", "dr.who"),
            ("user.name=", "dr.who"),
            ("user.name=alice", "alice"),
            ("USER.NAME=a.b-c_9$", "a.b-c_9$"),
            ("user.name=a&user.name=b", "a"),
            ("user.name=hue&doas=eve", "eve"),
            ("user.name=etl&doAs=bob", "bob"),
            ("user.name=bob&doas=bob", "bob"),
        ] {
            assert_eq!(user(text).as_deref(), Ok(expected), "{text}");
        }
        let error = user("user.name=etl&doas=eve").unwrap_err();
        assert_eq!(error.exception, Exception::Authorization);
        assert_eq!(error.message, "User: etl is not allowed to impersonate eve");
        for bad in ["1a", "a b", "a/b", "$", "-a", "ü", "a$b", "a$$"] {
            let error = user(&format!("user.name={bad}")).unwrap_err();
            assert_eq!(
                error.message,
                format!(
                    "Invalid value for webhdfs parameter \"user.name\": Invalid value: \"{bad}\" does not belong to the domain ^[A-Za-z_][A-Za-z0-9._-]*[$]?$"
                )
            );
        }
    }

    #[test]
    fn foreign_names_are_not_served() {
        let config = Config { hosts: vec!["Files.example".to_owned()], ..Config::default() };
        let hosts = Hosts::new(&config, "nn.local:9870");
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
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
            assert_eq!(hosts.allow(&headers), allowed, "{host}");
        }
        assert!(hosts.allow(&HeaderMap::new()));
    }
}
