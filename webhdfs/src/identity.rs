//! Who calls: `user.name` where it is believed, and `doas`.

use daemon::groups::USER_BYTES_MAX;

use crate::config::Config;
use crate::error::{Exception, WebError};
use crate::query::Query;

/// The user of a request without a name: one with no rights but everybody's.
pub const STATIC_USER: &str = "dr.who";
/// What a user's name looks like, as Hadoop writes it.
const USER_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9._-]*[$]?$";

/// The user of a request whose names are believed.
///
/// # Errors
/// If a name is invalid, or the caller may not act for another.
pub fn believed(query: &Query, config: &Config) -> Result<String, WebError> {
    let user = user_parameter(query, "user.name")?.unwrap_or(STATIC_USER);
    effective(user, query, config)
}

/// The refusal of a request that proves nothing, with the remedy.
pub fn unproven(query: &Query) -> WebError {
    let user = query.text("user.name").filter(|user| is_user(user));
    let claimed = user.map(|user| format!(", so user.name={user} is not believed"));
    let text = format!(
        "Authentication required: this cluster has auth = \"token\"{}. Fetch a token with `hanno admin token{}` and send it as delegation=TOKEN",
        claimed.unwrap_or_default(),
        user.map(|user| format!(" --user {user}")).unwrap_or_default(),
    );
    WebError::new(Exception::Unauthenticated, text)
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

/// True if `name` matches `USER_PATTERN` and is not too long.
pub fn is_user(name: &str) -> bool {
    if name.len() > USER_BYTES_MAX {
        return false;
    }
    let name = name.strip_suffix('$').unwrap_or(name);
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let user = |text: &str| believed(&Query::parse(text).unwrap(), &config);
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
        let (longest, long) = ("a".repeat(USER_BYTES_MAX), "a".repeat(USER_BYTES_MAX + 1));
        assert_eq!(user(&format!("user.name={longest}")), Ok(longest));
        for bad in [&format!("user.name={long}"), &format!("user.name=hue&doas={long}")] {
            assert_eq!(user(bad).unwrap_err().exception, Exception::IllegalArgument);
        }
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
}
