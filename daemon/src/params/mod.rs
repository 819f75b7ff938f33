//! The parameters of a request, read strictly and in one way by every route of every daemon.
//!
//! | a parameter | |
//! |---|---|
//! | with a value that its route does not take, given twice, or not percent-encoded UTF-8 | refused (400); the answer names it and says what is allowed |
//! | that nobody knows and that looks like one of the route's | refused (400): it would change the outcome |
//! | that is blank | absent, because forms send all their fields |
//! | that the route has not | ignored, because tools send such; the answer's header `Warning` names it |
//!
//! Invariant: what a route reads is what it knows. A route without a reader has no parameters, and says so: [`crate::front`] asks [`Ear`].

pub mod logs;

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderValue, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;

pub use crate::error::BadParameter;

/// Read by [`crate::access`] before any route.
const COMMON: [&str; 1] = ["user.name"];
/// Most letters by which a mistyped name differs from the one that was meant.
const MISTAKES_MAX: usize = 2;
/// Names that are shorter are too much like each other; they are only compared without regard to case.
const NAME_LETTERS_MIN: usize = 5;
/// Most ignored parameters that are named.
const LISTED_MAX: usize = 8;
/// Most letters of their names.
const LISTED_LETTERS_MAX: usize = 200;
/// Most letters of a value in a refusal.
const SHOWN_LETTERS_MAX: usize = 100;

/// What a route reads from its query.
pub trait Parameters: Sized {
    /// Reads all parameters of the route, also where one decides about another: what is read is what is known.
    ///
    /// # Errors
    /// [`BadParameter`].
    fn read(given: &Given) -> Result<Self, BadParameter>;
}

/// The parameters of a route, as an argument of its handler.
#[derive(Clone, Copy, Debug)]
pub struct Params<T>(pub T);

impl<T: Parameters, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = BadParameter;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, BadParameter> {
        read(&parts.uri, &parts.extensions).map(Params)
    }
}

/// The parameters of a request.
///
/// # Errors
/// [`BadParameter`].
pub fn read<T: Parameters>(uri: &Uri, extensions: &Extensions) -> Result<T, BadParameter> {
    let query = uri.query().unwrap_or_default();
    let (wanted, warning) = understand(query)?;
    Ear::judged(extensions, warning);
    Ok(wanted)
}

/// The parameters in a query, and the text for the header `Warning` if some are ignored.
///
/// # Errors
/// [`BadParameter`].
pub fn understand<T: Parameters>(query: &str) -> Result<(T, Option<String>), BadParameter> {
    let given = Given { pairs: pairs(query)?, known: RefCell::default() };
    let wanted = T::read(&given);
    let known = given.known.into_inner();
    let mut unknown = Vec::new();
    for (name, value) in &given.pairs {
        if known.contains(&name.as_str()) || COMMON.contains(&name.as_str()) {
            continue;
        }
        if let Some(meant) = meant(name, known.iter().copied()) {
            return Err(BadParameter::Mistyped { given: shown(name), meant: meant.to_owned() });
        }
        if !value.trim().is_empty() {
            unknown.push(name.as_str());
        }
    }
    let reason = listed(unknown).map(|names| format!("this address has not: {names}"));
    Ok((wanted?, ignored(reason.as_slice())))
}

/// The decoded parameters of a request; remembers which of them the route knows.
#[derive(Debug)]
pub struct Given {
    pairs: Vec<(String, String)>,
    known: RefCell<Vec<&'static str>>,
}

impl Given {
    /// A text, also an empty one.
    ///
    /// # Errors
    /// If it is given twice.
    pub fn any_text(&self, name: &'static str) -> Result<Option<&str>, BadParameter> {
        self.known.borrow_mut().push(name);
        let mut values = self.pairs.iter().filter(|(given, _)| given == name);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(BadParameter::Repeated { name: name.to_owned() }),
            (value, None) => Ok(value.map(|(_, value)| value.as_str())),
        }
    }

    /// A text that is not blank.
    ///
    /// # Errors
    /// If it is given twice.
    pub fn text(&self, name: &'static str) -> Result<Option<&str>, BadParameter> {
        Ok(self.any_text(name)?.filter(|value| !value.trim().is_empty()))
    }

    /// As [`Given::text`]; empty if it is absent.
    ///
    /// # Errors
    /// If it is given twice.
    pub fn text_or_empty(&self, name: &'static str) -> Result<String, BadParameter> {
        Ok(self.text(name)?.unwrap_or_default().to_owned())
    }

    /// As [`Given::text`], for what must be there; `why` says what for.
    ///
    /// # Errors
    /// If it is absent or given twice.
    pub fn required(&self, name: &'static str, why: &str) -> Result<String, BadParameter> {
        let (missing, why) = (name.to_owned(), why.to_owned());
        let text = self.text(name)?.map(str::to_owned);
        text.ok_or(BadParameter::Missing { name: missing, why })
    }

    /// A whole number.
    ///
    /// # Errors
    /// If it is none, or out of `range`.
    pub fn number(
        &self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, BadParameter> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_plain.then(|| text.parse().ok()).flatten();
        let number = number.filter(|number| range.contains(number)).ok_or_else(|| {
            let allowed = match range.clone().into_inner() {
                (least, u64::MAX) => format!("a whole number of at least {least}"),
                (least, most) => format!("a whole number from {least} to {most}"),
            };
            bad_value(name, text, allowed)
        })?;
        Ok(Some(number))
    }

    /// `true` or `false`; false if it is absent.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn flag(&self, name: &'static str) -> Result<bool, BadParameter> {
        Ok(self.choice(name, &[("true", true), ("false", false)])?.unwrap_or(false))
    }

    /// One of some words; empty if it is absent.
    ///
    /// # Errors
    /// If it is another one.
    pub fn word(
        &self,
        name: &'static str,
        words: &[&'static str],
    ) -> Result<&'static str, BadParameter> {
        let words: Vec<_> = words.iter().map(|word| (*word, *word)).collect();
        Ok(self.choice(name, &words)?.unwrap_or_default())
    }

    /// One of some words, for what stands for it.
    ///
    /// # Errors
    /// If it is another one.
    pub fn choice<T: Copy>(
        &self,
        name: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, BadParameter> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.map(Some).ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            bad_value(name, text, format!("one of {}", words.join(", ")))
        })
    }
}

impl Parameters for () {
    fn read(_: &Given) -> Result<Self, BadParameter> {
        Ok(())
    }
}

/// The refusal of a value.
pub fn bad_value(name: &str, value: &str, allowed: impl Into<String>) -> BadParameter {
    let (name, value) = (name.to_owned(), shown(value));
    BadParameter::Value { name, value, allowed: allowed.into() }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_LETTERS_MAX).collect::<String>().escape_debug().to_string()
}

/// Names and values in order, decoded as forms encode them.
///
/// # Errors
/// If the text is not percent-encoded UTF-8: it would be taken for something else.
pub fn pairs(query: &str) -> Result<Vec<(String, String)>, BadParameter> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decoded(name)?, decoded(value)?))
    });
    pairs.collect()
}

/// The only value of a parameter.
///
/// # Errors
/// If the query cannot be decoded, or has several.
pub fn one(query: &str, name: &'static str) -> Result<Option<String>, BadParameter> {
    let given = Given { pairs: pairs(query)?, known: RefCell::default() };
    Ok(given.any_text(name)?.map(str::to_owned))
}

fn decoded(text: &str) -> Result<String, BadParameter> {
    let refused = || BadParameter::Encoding { text: shown(text) };
    let has_digits = |rest: &str| {
        rest.get(..2).is_some_and(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    if !text.split('%').skip(1).all(has_digits) {
        return Err(refused());
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().map_err(|_| refused())?;
    Ok(decoded.into_owned())
}

/// The known parameter that was meant by an unknown name.
pub fn meant<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let looks_like = |known: &&str| {
        name.eq_ignore_ascii_case(known)
            || name.len() >= NAME_LETTERS_MIN
                && name.len() <= known.len() + MISTAKES_MAX
                && strsim::osa_distance(name, known) <= MISTAKES_MAX
    };
    known.into_iter().find(looks_like)
}

/// Names for a header, each once; none if there are none.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut list: Vec<&str> = Vec::new();
    for name in names {
        if !list.contains(&name) && list.len() < LISTED_MAX {
            list.push(name);
        }
    }
    let listed = list.join(", ").escape_default().to_string().replace(['"', '\\'], "");
    let listed: String = listed.chars().take(LISTED_LETTERS_MAX).collect();
    (!list.is_empty()).then_some(listed)
}

/// The text of a header `Warning` that says what is ignored, with the reasons.
pub fn ignored(reasons: &[String]) -> Option<String> {
    (!reasons.is_empty()).then(|| format!("299 hanno \"ignored, {}\"", reasons.join("; ")))
}

/// Learns what a route makes of the parameters of its request. It is in the extensions of every request with a query.
#[derive(Clone, Debug)]
pub struct Ear {
    query: Arc<str>,
    heard: Arc<OnceLock<Option<String>>>,
}

impl Ear {
    /// Listens to the route of a request, if it has a query.
    pub(crate) fn listen<B>(request: &mut Request<B>) -> Option<Ear> {
        let query = request.uri().query().filter(|query| !query.is_empty())?;
        let ear = Ear { query: query.into(), heard: Arc::default() };
        request.extensions_mut().insert(ear.clone());
        Some(ear)
    }

    /// Called by a route that has judged its parameters; `warning` is about those that it ignores.
    pub fn judged(extensions: &Extensions, warning: Option<String>) {
        if let Some(ear) = extensions.get::<Ear>() {
            // A route that reads in two steps has the first one's warning.
            let _ = ear.heard.set(warning);
        }
    }

    /// Says in the answer which parameters were ignored: all of them, if no route has judged them.
    pub(crate) fn tell(self, response: &mut Response) {
        let warning = match self.heard.get() {
            Some(heard) => heard.clone(),
            None if response.status().is_client_error() => None,
            None => understand::<()>(&self.query).map_or_else(
                |error| Some(format!("299 hanno \"{}\"", error.to_string().replace('"', "'"))),
                |((), warning)| warning,
            ),
        };
        if let Some(warning) = warning.and_then(|text| HeaderValue::from_str(&text).ok()) {
            response.headers_mut().append(header::WARNING, warning);
        }
    }
}

impl IntoResponse for BadParameter {
    fn into_response(self) -> Response {
        (StatusCode::BAD_REQUEST, format!("{self}\n")).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use futures_util::FutureExt;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    #[derive(Debug, PartialEq)]
    struct Sample {
        path: String,
        limit: Option<u64>,
        recursive: bool,
        kind: Option<u8>,
        from: Option<String>,
    }

    impl Parameters for Sample {
        fn read(given: &Given) -> Result<Self, BadParameter> {
            Ok(Sample {
                path: given.text_or_empty("path")?,
                limit: given.number("limit", 1..=9)?,
                recursive: given.flag("recursive")?,
                kind: given.choice("type", &[("m", 1), ("r", 2)])?,
                from: given.any_text("from")?.map(str::to_owned),
            })
        }
    }

    #[test]
    fn values_are_read_or_refused_by_name() {
        let read = |query: &str| understand::<Sample>(query).map(|(sample, _)| sample);
        let all = read("path=%2Fa+b%2B%C3%BC&limit=9&recursive=true&type=r&from=").unwrap();
        let expected = Sample {
            path: "/a b+ü".to_owned(),
            limit: Some(9),
            recursive: true,
            kind: Some(2),
            from: Some(String::new()),
        };
        assert_eq!(all, expected);
        let blank = read("path=&limit=&recursive=+&type=&&").unwrap();
        assert_eq!(blank, read("").unwrap());
        for (query, text) in [
            ("limit=0", "parameter \"limit\" is \"0\"; allowed is a whole number from 1 to 9"),
            ("limit=%2B5", "parameter \"limit\" is \"+5\"; allowed is a whole number from 1 to 9"),
            ("limit=-1", "parameter \"limit\" is \"-1\"; allowed is a whole number from 1 to 9"),
            (
                "limit=99999999999999999999",
                "parameter \"limit\" is \"99999999999999999999\"; allowed is a whole number from 1 to 9",
            ),
            ("recursive=1", "parameter \"recursive\" is \"1\"; allowed is one of true, false"),
            (
                "recursive=True",
                "parameter \"recursive\" is \"True\"; allowed is one of true, false",
            ),
            ("type=M%0A", "parameter \"type\" is \"M\\n\"; allowed is one of m, r"),
            ("path=/a&path=/b", "parameter \"path\" is given more than once"),
            ("path=&path=", "parameter \"path\" is given more than once"),
            ("Path=/a", "there is no parameter \"Path\"; did you mean \"path\"?"),
            ("recursiv=true", "there is no parameter \"recursiv\"; did you mean \"recursive\"?"),
        ] {
            assert_eq!(read(query).unwrap_err().to_string(), text, "{query}");
        }
        for query in ["path=%", "path=%f", "path=%zz", "path=%FF", "%C3=1", "other=%FF", "a%é=1"] {
            let refused = read(query).unwrap_err();
            assert!(matches!(refused, BadParameter::Encoding { .. }), "{query}: {refused}");
        }
    }

    fn answer(target: &str) -> (u16, Option<String>, String) {
        let other = |request: axum::extract::Request| async move {
            Ear::judged(request.extensions(), None);
        };
        let routes: Router = Router::new()
            .route("/sample", get(|Params(sample): Params<Sample>| async move { sample.path }))
            .route("/plain", get(|| async { "plain" }))
            .route("/other", get(other));
        let mut request = Request::get(target).body(Body::empty()).unwrap();
        let ear = Ear::listen(&mut request);
        let mut response = routes.oneshot(request).now_or_never().unwrap().unwrap();
        if let Some(ear) = ear {
            ear.tell(&mut response);
        }
        let warning = response.headers().get(header::WARNING);
        let warning = warning.map(|text| text.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        let body = response.into_body().collect().now_or_never().unwrap().unwrap().to_bytes();
        (status, warning, String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn no_route_drops_a_parameter_in_silence() {
        let ignored =
            |text: &str| Some(format!("299 hanno \"ignored, this address has not: {text}\""));
        for (target, expected) in [
            ("/plain", None),
            ("/plain?", None),
            ("/plain?user.name=ann&blank=", None),
            ("/plain?depth=1&user.name=ann&depth=2&_=5", ignored("depth, _")),
            ("/sample?path=/a", None),
            ("/sample?path=/a&doas=bob", ignored("doas")),
            ("/sample?path=/a&a%22%0D%0Ab=x", ignored("arnb")),
            ("/other?anything=1", None),
            ("/none?depth=1", None),
        ] {
            assert_eq!(answer(target).1, expected, "{target}");
        }
        let (status, warning, text) = answer("/sample?path=/a&limit=x");
        assert_eq!((status, warning), (400, None));
        assert_eq!(text, "parameter \"limit\" is \"x\"; allowed is a whole number from 1 to 9\n");
        assert!(answer("/plain?x=%FF").1.unwrap().contains("percent"), "it is named");
    }

    proptest::proptest! {
        #[test]
        fn any_query_is_read_and_told_in_a_header(text in ".{0,300}") {
            if let Ok((_, Some(warning))) = understand::<Sample>(&text) {
                proptest::prop_assert!(HeaderValue::from_str(&warning).is_ok());
            }
        }

        #[test]
        fn what_was_encoded_is_decoded(value in ".{0,60}") {
            let encoded = percent_encoding::utf8_percent_encode(&value, percent_encoding::NON_ALPHANUMERIC);
            let pairs = pairs(&format!("a=1&b={encoded}")).unwrap();
            proptest::prop_assert_eq!(&pairs[1].1, &value);
        }
    }
}
