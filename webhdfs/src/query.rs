//! The query: names in any case, form decoding, the first value wins, blank is absent; numbers and booleans with Hadoop's
//! texts for what does not parse.

use std::collections::BTreeMap;

use axum::http::Uri;
use daemon::params;

use crate::error::WebError;
use crate::op::Op;

/// Word for "no value" that Hadoop's own clients send for numbers.
const NULL: &str = "null";

/// The parameters of a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query {
    /// Names in lower case, values decoded, in order.
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads what follows the `?`.
    ///
    /// # Errors
    /// If it is not percent-encoded UTF-8.
    pub fn parse(text: &str) -> Result<Self, WebError> {
        let pairs = params::pairs(text).map_err(|error| WebError::illegal(error.to_string()))?;
        let pairs = pairs.into_iter().map(|(name, value)| (name.to_lowercase(), value));
        Ok(Query { pairs: pairs.collect() })
    }

    /// The parameters of a request.
    ///
    /// # Errors
    /// As [`Query::parse`].
    pub fn of(uri: &Uri) -> Result<Self, WebError> {
        Query::parse(uri.query().unwrap_or_default())
    }

    /// The first value of `name` (lower case); `None` also if it is blank.
    pub fn text(&self, name: &str) -> Option<&str> {
        let (_, value) = self.pairs.iter().find(|(key, _)| key == name)?;
        (!value.trim().is_empty()).then_some(value)
    }

    /// The first value of `name`, also a blank one; empty if there is none.
    pub fn any_text(&self, name: &str) -> &str {
        self.pairs.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The names that have a value.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let said = self.pairs.iter().filter(|(_, value)| !value.trim().is_empty());
        said.map(|(name, _)| name.as_str())
    }

    /// The names that have a value and then another one.
    pub fn contradicted(&self) -> impl Iterator<Item = &str> {
        let mut first: BTreeMap<&str, &str> = BTreeMap::new();
        let said = self.pairs.iter().filter(|(_, value)| !value.trim().is_empty());
        said.filter_map(move |(name, value)| {
            let counts = *first.entry(name).or_insert(value);
            (counts != value).then_some(name.as_str())
        })
    }

    /// All values of `name` that are not blank.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let values = self.pairs.iter().filter(move |(key, _)| key == name);
        values.map(|(_, value)| value.as_str()).filter(|value| !value.trim().is_empty())
    }

    /// A text that `op` requires.
    ///
    /// # Errors
    /// If it is missing.
    pub fn required(&self, op: Op, name: &str) -> Result<&str, WebError> {
        self.text(name).ok_or_else(|| required(op, name))
    }

    /// `true` or `false` in any case; absent is `default`.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn boolean(&self, name: &str, default: bool) -> Result<bool, WebError> {
        match self.text(name) {
            None => Ok(default),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => {
                Err(WebError::parameter(name, format!("Failed to parse \"{text}\" to Boolean.")))
            }
        }
    }

    /// A 64-bit number of at least `min`.
    ///
    /// # Errors
    /// If it does not parse or is too small.
    pub fn long(&self, name: &str, min: i64) -> Result<Option<i64>, WebError> {
        self.number(
            name,
            ("long integer", 10),
            (i128::from(i64::MIN), i128::from(i64::MAX)),
            (min, i64::MAX),
        )
    }

    /// As [`Query::long`] for what cannot be negative.
    ///
    /// # Errors
    /// As [`Query::long`].
    pub fn size(&self, name: &str, min: i64) -> Result<Option<u64>, WebError> {
        let number = self.long(name, min.max(0))?;
        Ok(number.map(i64::unsigned_abs))
    }

    /// A 32-bit number of at least `min`.
    ///
    /// # Errors
    /// As [`Query::long`].
    pub fn integer(&self, name: &str, min: i64) -> Result<Option<i64>, WebError> {
        self.number(
            name,
            ("integer", 10),
            (i128::from(i32::MIN), i128::from(i32::MAX)),
            (min, i64::MAX),
        )
    }

    /// A 16-bit number of at least `min`.
    ///
    /// # Errors
    /// As [`Query::long`].
    pub fn short(&self, name: &str, min: i64) -> Result<Option<u16>, WebError> {
        let kind = ("short integer", 10);
        let number = self.number(name, kind, SHORT, (min.max(0), i64::MAX))?;
        Ok(number.map(|number| u16::try_from(number).unwrap_or(u16::MAX)))
    }

    /// Permission bits in octal, 0 to 1777.
    ///
    /// # Errors
    /// As [`Query::long`].
    pub fn permission(&self, name: &str) -> Result<Option<u16>, WebError> {
        let number = self.number(name, ("short integer", 8), SHORT, (0, 0o1777))?;
        Ok(number.map(|number| u16::try_from(number).unwrap_or(u16::MAX)))
    }

    fn number(
        &self,
        name: &str,
        (kind, radix): (&str, u32),
        (lowest, highest): (i128, i128),
        (min, max): (i64, i64),
    ) -> Result<Option<i64>, WebError> {
        let Some(text) = self.text(name).filter(|text| *text != NULL) else { return Ok(None) };
        let parsed = i128::from_str_radix(text, radix).ok();
        let Some(number) = parsed
            .filter(|number| (lowest..=highest).contains(number))
            .and_then(|number| i64::try_from(number).ok())
        else {
            let problem = format!("Failed to parse \"{text}\" as a radix-{radix} {kind}.");
            return Err(WebError::parameter(name, problem));
        };
        let written = |number: i64| match radix {
            8 if number < 0 => format!("-{:o}", number.unsigned_abs()),
            8 => format!("{number:o}"),
            _ => number.to_string(),
        };
        let range = |sign: &str, bound: i64| {
            let (number, bound) = (written(number), written(bound));
            let problem = format!("Invalid parameter range: {name} = {number} {sign} {bound}");
            Err(WebError::parameter(name, problem))
        };
        match number {
            _ if number < min => range("<", min),
            _ if number > max => range(">", max),
            _ => Ok(Some(number)),
        }
    }
}

/// What Java's `short` holds.
const SHORT: (i128, i128) = (i16::MIN as i128, i16::MAX as i128);

/// The error for a missing parameter.
pub fn required(op: Op, name: &str) -> WebError {
    let op = op.name();
    WebError::illegal(format!("Required param {name} for op: {op} is null or empty"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_read_as_hadoop_reads_them() {
        let query = Query::parse(
            "OP=OPEN&startAfter=a+b%2B%C3%BC&owner=&group=%20&x=1&X=2&xattr.name=a&xattr.name=b&flag&&=v",
        )
        .unwrap();
        for text in ["destination=%FF", "a=1&%C3=2", "xattr.value=100%", "x=%zz"] {
            let refused = Query::parse(text).unwrap_err();
            assert!(refused.message.contains("percent-encoded"), "{}", refused.message);
        }
        assert_eq!(query.text("op"), Some("OPEN"));
        assert_eq!(query.text("startafter"), Some("a b+ü"));
        assert_eq!(
            (query.text("owner"), query.text("group"), query.text("flag")),
            (None, None, None)
        );
        assert_eq!(query.text("x"), Some("1"));
        assert_eq!(query.all("xattr.name").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(
            query.required(Op::Rename, "destination").unwrap_err().message,
            "Required param destination for op: RENAME is null or empty"
        );
    }

    #[test]
    fn booleans() {
        let value = |text: &str| {
            Query::parse(&format!("recursive={text}")).unwrap().boolean("recursive", false)
        };
        assert_eq!((value("True"), value("FALSE"), value("")), (Ok(true), Ok(false), Ok(false)));
        assert_eq!(
            value("x").unwrap_err().message,
            "Invalid value for webhdfs parameter \"recursive\": Failed to parse \"x\" to Boolean."
        );
    }

    #[test]
    fn numbers() {
        let query = |text: &str| Query::parse(text).unwrap();
        assert_eq!(query("offset=12").size("offset", 0), Ok(Some(12)));
        assert_eq!(query("length=null").size("length", 0), Ok(None));
        assert_eq!(query("permission=1777").permission("permission"), Ok(Some(0o1777)));
        assert_eq!(query("accesstime=-1").long("accesstime", -1), Ok(Some(-1)));
        for (text, problem) in [
            ("offset=-5", "\"offset\": Invalid parameter range: offset = -5 < 0"),
            ("offset=x", "\"offset\": Failed to parse \"x\" as a radix-10 long integer."),
            (
                "offset=9223372036854775808",
                "\"offset\": Failed to parse \"9223372036854775808\" as a radix-10 long integer.",
            ),
        ] {
            let error = query(text).size("offset", 0).unwrap_err().message;
            assert_eq!(error, format!("Invalid value for webhdfs parameter {problem}"));
        }
        for (text, problem) in [
            ("permission=778", "Failed to parse \"778\" as a radix-8 short integer."),
            ("permission=2000", "Invalid parameter range: permission = 2000 > 1777"),
            ("permission=-1", "Invalid parameter range: permission = -1 < 0"),
        ] {
            let error = query(text).permission("permission").unwrap_err().message;
            assert_eq!(
                error,
                format!("Invalid value for webhdfs parameter \"permission\": {problem}")
            );
        }
        let error = query("replication=0").short("replication", 1).unwrap_err().message;
        assert!(error.ends_with("Invalid parameter range: replication = 0 < 1"), "{error}");
        assert!(query("replication=40000").short("replication", 1).is_err());
        assert!(query("buffersize=3000000000").integer("buffersize", 1).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,200}") {
            let Ok(query) = Query::parse(&text) else { return Ok(()) };
            for (name, value) in &query.pairs {
                proptest::prop_assert_eq!(name, &name.to_lowercase());
                let first = query.pairs.iter().find(|(key, _)| key == name).map(|(_, v)| v);
                proptest::prop_assert!(query.text(name).is_none_or(|text| Some(text) == first.map(String::as_str)));
                let _ = (query.long(name, 0), query.permission(name), query.boolean(name, true));
                let _ = value;
            }
        }

        #[test]
        fn what_was_encoded_is_decoded(value in ".{1,60}") {
            let encoded: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
            let query = Query::parse(&format!("a=1&DestinatioN={encoded}")).unwrap();
            let expected = (!value.trim().is_empty()).then_some(value.as_str());
            proptest::prop_assert_eq!(query.text("destination"), expected);
        }
    }
}
