//! `/jmx`: figures as beans, for tools built around Hadoop. Those of the process are the same for every daemon; a daemon adds its own, under Hadoop's names
//! where Hadoop has them, or its registry under ours.

use std::time::Duration;

use axum::Json;
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
}

impl Parameters for Wanted {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        Ok(Wanted { qry: given.text_or_empty("qry")? })
    }
}

/// The answer with the requested beans.
pub fn answer(beans: impl IntoIterator<Item = (String, Value)>, wanted: &Wanted) -> Response {
    Json(chosen(beans, &wanted.qry)).into_response()
}

/// `{"beans": […]}` with the beans of this name; a star at its end stands for any rest, and an empty name for all.
pub fn chosen(beans: impl IntoIterator<Item = (String, Value)>, wanted: &str) -> Value {
    let is_wanted = |name: &str| match wanted.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => wanted.is_empty() || name == wanted,
    };
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
        let mine = chosen("Hanno:*");
        assert_eq!(mine["beans"][0]["things"], 7);
        assert!(mine["beans"][0]["process_resident_memory_bytes"].as_u64().unwrap() > 0);
    }
}
