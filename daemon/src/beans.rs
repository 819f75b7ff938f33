//! `/jmx`: figures as beans, for tools built around Hadoop. Those of the process are the same for every daemon; a daemon adds its own, under Hadoop's names
//! where Hadoop has them, or its registry under ours.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use prometheus_client::registry::Registry;
use serde_json::{Map, Value, json};

use crate::metrics;
use crate::params::{BadParameter, Given, Parameters};

/// The query of a request.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// A name, in the form that [`chosen`] takes.
    qry: String,
    /// `BEAN::ATTRIBUTE`.
    get: String,
}

impl Parameters for Wanted {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        Ok(Wanted { qry: given.text_or_empty("qry")?, get: given.text_or_empty("get")? })
    }
}

/// The answer with the requested beans, or with one attribute of one.
pub fn answer(beans: impl IntoIterator<Item = (String, Value)>, wanted: &Wanted) -> Response {
    if wanted.get.is_empty() {
        return Json(chosen(beans, &wanted.qry)).into_response();
    }
    let text = |status, text: &str| (status, Json(json!({ "result": "ERROR", "message": text })));
    let Some((bean, attribute)) = wanted.get.split_once("::") else {
        let form = "`get` has the form BEAN::ATTRIBUTE";
        return text(StatusCode::BAD_REQUEST, form).into_response();
    };
    let mut found = chosen(beans, bean);
    let beans = found["beans"].as_array_mut().map(std::mem::take).unwrap_or_default();
    match beans.into_iter().next().and_then(|mut bean| {
        let value = bean.get_mut(attribute)?.take();
        let name = bean["name"].take();
        Some(json!({ "beans": [{ "name": name, attribute: value }] }))
    }) {
        Some(found) => Json(found).into_response(),
        None => text(StatusCode::NOT_FOUND, "there is no such bean or attribute").into_response(),
    }
}

/// True if a bean's name is meant: a domain and keys in any order, both with `*` and `?` for any rest and any character, and `,*` for any more keys.
fn is_meant(name: &str, wanted: &str) -> bool {
    let parts = |text: &str| -> Option<(String, Vec<String>)> {
        let (domain, keys) = text.split_once(':')?;
        Some((domain.to_owned(), keys.split(',').map(str::to_owned).collect()))
    };
    let (Some((domain, mut keys)), Some((wanted_domain, wanted_keys))) =
        (parts(name), parts(wanted))
    else {
        // A name that is cut off at a star.
        return matches(wanted.as_bytes(), name.as_bytes());
    };
    if !matches(wanted_domain.as_bytes(), domain.as_bytes()) {
        return false;
    }
    let takes_more = wanted_keys.iter().any(|key| key == "*");
    for wanted in wanted_keys.iter().filter(|key| *key != "*") {
        let Some(at) = keys.iter().position(|key| matches(wanted.as_bytes(), key.as_bytes()))
        else {
            return false;
        };
        keys.remove(at);
    }
    keys.is_empty() || takes_more
}

/// `*` stands for any bytes, `?` for one.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(c) if *c == b'?' || *c == text[from] => (at, from) = (at + 1, from + 1),
            _ => match star {
                Some((begin, taken)) => {
                    star = Some((begin, taken + 1));
                    (at, from) = (begin + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == b'*')
}

/// `{"beans": […]}` with the beans that a name means, by the rules of Java's `ObjectName`; an empty name means all.
pub fn chosen(beans: impl IntoIterator<Item = (String, Value)>, wanted: &str) -> Value {
    let is_wanted = |name: &str| wanted.is_empty() || is_meant(name, wanted);
    let chosen = beans.into_iter().filter(|(name, _)| is_wanted(name)).map(|(name, bean)| {
        let mut named = Map::new();
        named.insert("name".to_owned(), json!(name));
        if let Value::Object(fields) = bean {
            named.extend(fields);
        }
        Value::Object(named)
    });
    json!({ "beans": chosen.collect::<Vec<_>>() })
}

/// The beans that every daemon has: those of its process, which has been up for `up`, and its figures.
pub fn common(
    service: &str,
    figures: &Registry,
    up: Duration,
) -> impl Iterator<Item = (String, Value)> {
    process(up).into_iter().chain([registry(service, figures)])
}

/// The beans of the process, which has been up for `up`.
pub fn process(up: Duration) -> [(String, Value); 2] {
    [
        ("java.lang:type=Memory".to_owned(), memory()),
        (
            "java.lang:type=Runtime".to_owned(),
            json!({ "Uptime": u64::try_from(up.as_millis()).unwrap_or(u64::MAX) }),
        ),
    ]
}

/// The process has no heap of a fixed size: its resident memory stands in for that.
fn memory() -> Value {
    let usage = sys::process::own_usage().ok();
    let (used, most) =
        usage.map_or((0, 0), |usage| (usage.resident_bytes, usage.resident_bytes_max));
    json!({
        "HeapMemoryUsage": { "init": 0, "used": used, "committed": used, "max": most },
        "NonHeapMemoryUsage": { "init": 0, "used": 0, "committed": 0, "max": -1 },
    })
}

/// Every figure of `/metrics` as one bean, `Hanno:service=<service>,name=Metrics`.
fn registry(service: &str, registry: &Registry) -> (String, Value) {
    let text = metrics::text(registry);
    let samples = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        let value = match value.parse::<i64>() {
            Ok(whole) => json!(whole),
            Err(_) => json!(value.parse::<f64>().ok()?),
        };
        Some((name.to_owned(), value))
    });
    (format!("Hanno:service={service},name=Metrics"), Value::Object(samples.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beans_are_chosen_by_name() {
        let mut figures = metrics::registry();
        metrics::gauges(&mut figures, &[("things", "Things", 7)]);
        let chosen = |wanted: &str| chosen(common("X", &figures, Duration::from_secs(3)), wanted);
        let names = |wanted| -> Vec<String> {
            let beans = chosen(wanted)["beans"].clone();
            let beans = beans.as_array().unwrap().iter();
            beans.map(|bean| bean["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names("").len(), 3);
        assert_eq!(names("*").len(), 3);
        assert_eq!(names("java.lang:*"), ["java.lang:type=Memory", "java.lang:type=Runtime"]);
        assert_eq!(names("Hanno:service=X,name=Metrics").len(), 1);
        assert!(names("Hanno:service=X").is_empty());
        assert_eq!(names("*:*").len(), 3);
        assert_eq!(names("Hanno:name=Metrics,service=X").len(), 1, "in any order");
        assert_eq!(names("Hanno:service=?,*").len(), 1);
        assert_eq!(names("*:type=Mem*").len(), 1);
        assert!(names("[").is_empty() && names("*:type=Memo").is_empty());
        let mine = chosen("Hanno:*");
        assert_eq!(mine["beans"][0]["things"], 7);
        assert!(mine["beans"][0]["process_resident_memory_bytes"].as_u64().unwrap() > 0);
    }
}
