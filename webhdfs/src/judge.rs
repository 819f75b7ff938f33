//! Finds the operation that a client means, and checks its parameters.
//!
//! No parameter is dropped silently ([`Op::judge`]):
//!
//! | a parameter | |
//! |---|---|
//! | of this operation with an invalid value | refused |
//! | that nobody knows and that looks like one of this operation's | refused: it would change the outcome |
//! | given twice with different values | the first one counts, as in HDFS because clients add what is there already; reported in the header `Warning` |
//! | with a value that has no effect here | ignored and reported, too |
//! | of other operations, or that nobody knows | ignored, as HDFS does because clients send them, and reported in the header `Warning` |

use axum::http::{HeaderValue, Method, header};
use axum::response::Response;
use daemon::params;

use crate::error::WebError;
use crate::op::{Kind, Op, PARAMETERS};
use crate::query::Query;
use crate::steps::unhonoured_flags;

/// What every operation may have: itself, who asks, and what servers put into the URLs of second steps.
const COMMON: [&str; 6] = ["op", "user.name", "doas", "delegation", "namenoderpcaddress", "data"];
/// The parameter that may have several values.
const MANY: &str = "xattr.name";

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
        let mut unknown = Vec::new();
        for name in query.names() {
            if COMMON.contains(&name) || self.parameters().contains(&name) {
                continue;
            }
            let is_known = PARAMETERS.iter().any(|(known, ..)| *known == name);
            let meant = params::meant(name, self.parameters().iter().copied());
            if let Some(meant) = meant.filter(|_| !is_known) {
                let text = format!(
                    "{} has no parameter \"{}\"; did you mean \"{meant}\"?",
                    self.name(),
                    name.escape_debug()
                );
                return Err(WebError::illegal(text));
            }
            unknown.push(name);
        }
        let flags = unhonoured_flags(self, query)?;
        let read = |name: &&str| COMMON.contains(name) || self.parameters().contains(name);
        let repeated = query.contradicted().filter(|name| *name != MANY).filter(read);
        let op = self.name();
        let reasons = [
            params::listed(unknown).map(|names| format!("{op} has not: {names}")),
            params::listed(flags).map(|flags| format!("{op} does nothing with createflag={flags}")),
            params::listed(repeated).map(|names| format!("the first value counts of: {names}")),
        ];
        Ok(params::ignored(&reasons.into_iter().flatten().collect::<Vec<_>>()))
    }
}

/// An answer with a header that says what was not done; an answer may have several.
pub(crate) fn warned(mut response: Response, warning: &str) -> Response {
    let warning = HeaderValue::from_str(warning).expect("a warning is printable ASCII");
    response.headers_mut().append(header::WARNING, warning);
    response
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
        let judge = |op: Op, text: &str| op.judge(&Query::parse(text).unwrap());
        for (op, text) in [
            (Op::Delete, "op=DELETE&recursive=true&user.name=a&doas=b&delegation=c"),
            (Op::Open, "op=OPEN&offset=1&length=2&buffersize=3&noredirect=true"),
            (Op::Open, "op=OPEN&offset=1&offset=1&user.name=a&user.name=a&user.name="),
            (Op::GetXattrs, "xattr.name=user.a&xattr.name=user.b"),
            (Op::Create, "createflag=CREATE,OVERWRITE,NEW_BLOCK,SYNC_BLOCK"),
            (Op::Append, "createflag=append,new_block,sync_block"),
            (Op::Create, "permission=644&unmaskedpermission=666&Overwrite=TRUE&data=true"),
        ] {
            assert_eq!(judge(op, text), Ok(None), "{text}");
        }
        for (op, text, told) in [
            (Op::Mkdirs, "overwrite=true&noredirect=true", "MKDIRS has not: overwrite, noredirect"),
            (Op::Open, "delegation_token=x", "OPEN has not: delegation_token"),
            (Op::Open, "a%22%0D%0Ab=x", "OPEN has not: arnb"),
            (
                Op::Create,
                "createflag=create,lazy_persist,SYNC_BLOCK,APPEND&x=1",
                "CREATE has not: x; CREATE does nothing with createflag=LAZY_PERSIST, APPEND",
            ),
            (Op::Append, "createflag=OVERWRITE", "APPEND does nothing with createflag=OVERWRITE"),
            (
                Op::Open,
                "offset=1&Offset=2&user.name=a&user.name=b",
                "the first value counts of: offset, user.name",
            ),
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
            (Op::Create, "createflag=CREATE,SYNC"),
            (Op::Append, "createflag=nothing"),
        ] {
            assert!(judge(op, text).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_query_is_judged_and_told_in_a_header(text in ".{0,300}", which in 0..Op::ALL.len()) {
            let Ok(query) = Query::parse(&text) else { return Ok(()) };
            if let Ok(Some(warning)) = Op::ALL[which].judge(&query) {
                proptest::prop_assert!(HeaderValue::from_str(&warning).is_ok());
            }
        }
    }
}
