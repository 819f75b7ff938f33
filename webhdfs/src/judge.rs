//! Finds the operation that a client means, and checks its parameters.
//!
//! No parameter is dropped silently ([`Op::judge`]):
//!
//! | a parameter | |
//! |---|---|
//! | of this operation with an invalid value | refused |
//! | that nobody knows and that looks like one of this operation's | refused: it would change the outcome |
//! | of other operations, or that nobody knows | ignored, as HDFS does because clients send them, and reported in the header `Warning` |

use axum::http::Method;

use crate::error::WebError;
use crate::op::{Kind, Op, PARAMETERS};
use crate::query::Query;

/// What every operation may have: itself, who asks, and what servers put into the URLs of second steps.
const COMMON: [&str; 6] = ["op", "user.name", "doas", "delegation", "namenoderpcaddress", "data"];
/// Most letters by which a mistyped name differs from the one that was meant.
const MISTAKES_MAX: usize = 2;
/// Names that are shorter are too much like each other.
const NAME_LETTERS_MIN: usize = 5;
/// Most ignored parameters that are reported.
const LISTED_MAX: usize = 8;

impl Op {
    /// The operation of `method` that `name` (any case) stands for.
    ///
    /// # Errors
    /// Hadoop's text for an unknown one; clients look for both the prefix and the name in it.
    pub fn find(method: &Method, name: &str) -> Result<Op, WebError> {
        let found = Op::ALL
            .iter()
            .find(|op| op.name().eq_ignore_ascii_case(name) && op.method() == *method);
        found.copied().ok_or_else(|| {
            let name = name.to_uppercase();
            WebError::parameter("op", format!("{name} is not a valid {method} operation."))
        })
    }

    /// Checks all parameters. Returns the text for the header `Warning`, if something is ignored.
    ///
    /// # Errors
    /// If a value is invalid, or a name looks like one of this operation's and is not.
    pub fn judge(self, query: &Query) -> Result<Option<String>, WebError> {
        for name in self.parameters() {
            let kind = PARAMETERS.iter().find(|(known, ..)| known == name).map(|(_, kind, _)| kind);
            match kind {
                Some(Kind::Flag) => query.boolean(name, false).map(drop)?,
                Some(Kind::Long(min)) => query.long(name, *min).map(drop)?,
                Some(Kind::Integer(min)) => query.integer(name, *min).map(drop)?,
                Some(Kind::Short(min)) => query.short(name, *min).map(drop)?,
                Some(Kind::Bits) => query.permission(name).map(drop)?,
                Some(Kind::Text) | None => {}
            }
        }
        let mut ignored = Vec::new();
        for name in query.names() {
            if COMMON.contains(&name) || self.parameters().contains(&name) {
                continue;
            }
            let is_known = PARAMETERS.iter().any(|(known, ..)| *known == name);
            let meant = self.parameters().iter().find(|known| looks_like(name, known));
            if let Some(meant) = meant.filter(|_| !is_known) {
                let text = format!(
                    "{} has no parameter \"{}\"; did you mean \"{meant}\"?",
                    self.name(),
                    name.escape_debug()
                );
                return Err(WebError::illegal(text));
            }
            if !ignored.contains(&name) && ignored.len() < LISTED_MAX {
                ignored.push(name);
            }
        }
        let listed = ignored.join(", ").escape_default().to_string().replace(['"', '\\'], "");
        let op = self.name();
        let listed: String = listed.chars().take(200).collect();
        Ok((!ignored.is_empty()).then(|| format!("299 hanno \"ignored, {op} has not: {listed}\"")))
    }
}

fn looks_like(name: &str, known: &str) -> bool {
    name.len() >= NAME_LETTERS_MIN
        && name.len() <= known.len() + MISTAKES_MAX
        && strsim::osa_distance(name, known) <= MISTAKES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_method_alone() {
        for op in Op::ALL {
            assert_eq!(Op::find(&op.method(), &op.name().to_lowercase()), Ok(*op));
            for method in [Method::GET, Method::PUT, Method::POST, Method::DELETE] {
                assert_eq!(Op::find(&method, op.name()).is_ok(), method == op.method());
            }
        }
        assert_eq!(
            Op::find(&Method::GET, "create").unwrap_err().message,
            "Invalid value for webhdfs parameter \"op\": CREATE is not a valid GET operation."
        );
    }

    #[test]
    fn nothing_that_is_said_is_lost_in_silence() {
        let judge = |op: Op, text: &str| op.judge(&Query::parse(text));
        for (op, text) in [
            (Op::Delete, "op=DELETE&recursive=true&user.name=a&doas=b&delegation=c"),
            (Op::Open, "op=OPEN&offset=1&length=2&buffersize=3&noredirect=true"),
            (Op::Create, "permission=644&unmaskedpermission=666&Overwrite=TRUE&data=true"),
        ] {
            assert_eq!(judge(op, text), Ok(None), "{text}");
        }
        for (op, text, told) in [
            (Op::Mkdirs, "overwrite=true&noredirect=true", "MKDIRS has not: overwrite, noredirect"),
            (Op::Open, "delegation_token=x", "OPEN has not: delegation_token"),
            (Op::Open, "a%22%0D%0Ab=x", "OPEN has not: arnb"),
        ] {
            let warning = judge(op, text).unwrap().unwrap();
            assert_eq!(warning, format!("299 hanno \"ignored, {told}\""), "{text}");
        }
        for (op, text, meant) in [
            (Op::Delete, "recursiv=true", "recursive"),
            (Op::Open, "lenght=10", "length"),
            (Op::Create, "overwrites=true", "overwrite"),
            (Op::SetOwner, "grupp=x", "group"),
        ] {
            let refused = judge(op, text).unwrap_err().message;
            assert!(refused.ends_with(&format!("did you mean \"{meant}\"?")), "{refused}");
        }
        for (op, text) in [
            (Op::Delete, "recursive=perhaps"),
            (Op::Open, "offset=-1"),
            (Op::Create, "blocksize=0"),
            (Op::SetTimes, "accesstime=-2"),
            (Op::Mkdirs, "unmaskedpermission=7777"),
        ] {
            assert!(judge(op, text).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_query_is_judged_and_told_in_a_header(text in ".{0,300}", which in 0..Op::ALL.len()) {
            if let Ok(Some(warning)) = Op::ALL[which].judge(&Query::parse(&text)) {
                proptest::prop_assert!(axum::http::HeaderValue::from_str(&warning).is_ok());
            }
        }
    }
}
