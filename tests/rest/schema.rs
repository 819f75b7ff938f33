//! As much of JSON Schema as the descriptions of the API use: `$ref`, `type`, `enum`, `required`, `properties`,
//! `additionalProperties`, `items`, `minimum`, `anyOf`. A word that is not known fails, so that none is passed over.

use serde_json::Value;

/// Words that say nothing about validity.
const REMARKS: [&str; 1] = ["description"];

/// How `value` differs from `schema`.
pub(super) fn check(root: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    look(root, schema, value, "", &mut problems);
    problems
}

fn look(root: &Value, schema: &Value, value: &Value, place: &str, problems: &mut Vec<String>) {
    let Some(words) = schema.as_object() else {
        problems.push(format!("{place}: no schema: {schema}"));
        return;
    };
    for (word, argument) in words {
        match word.as_str() {
            "$ref" => {
                let pointer = argument.as_str().unwrap_or_default().trim_start_matches('#');
                match root.pointer(pointer) {
                    Some(target) => look(root, target, value, place, problems),
                    None => problems.push(format!("{place}: {argument} is not described")),
                }
            }
            "type" if !is_of(argument.as_str().unwrap_or_default(), value) => {
                problems.push(format!("{place}: {value} is no {argument}"));
            }
            "enum" if !argument.as_array().is_some_and(|all| all.contains(value)) => {
                problems.push(format!("{place}: {value} is not one of {argument}"));
            }
            "minimum" if value.as_f64() < argument.as_f64() => {
                problems.push(format!("{place}: {value} is too small"));
            }
            "required" => {
                for name in argument.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    if value.get(name).is_none() {
                        problems.push(format!("{place}: {name} is missing"));
                    }
                }
            }
            "properties" => {
                for (name, inner) in argument.as_object().into_iter().flatten() {
                    if let Some(part) = value.get(name) {
                        look(root, inner, part, &format!("{place}/{name}"), problems);
                    }
                }
            }
            "additionalProperties" => others(root, (words, argument), value, place, problems),
            "items" => {
                for (index, part) in value.as_array().into_iter().flatten().enumerate() {
                    look(root, argument, part, &format!("{place}/{index}"), problems);
                }
            }
            "anyOf" => {
                let all = argument.as_array().into_iter().flatten();
                if !all.clone().any(|one| check(root, one, value).is_empty()) {
                    let reasons: Vec<_> = all.map(|one| check(root, one, value)).collect();
                    problems.push(format!("{place}: fits none of {reasons:?}"));
                }
            }
            "type" | "enum" | "minimum" => {}
            word if REMARKS.contains(&word) => {}
            word => problems.push(format!("{place}: {word} is not understood")),
        }
    }
}

fn others(
    root: &Value,
    (words, argument): (&serde_json::Map<String, Value>, &Value),
    value: &Value,
    place: &str,
    problems: &mut Vec<String>,
) {
    let known = words.get("properties");
    for (name, part) in value.as_object().into_iter().flatten() {
        if known.is_some_and(|known| known.get(name).is_some()) {
            continue;
        }
        let place = format!("{place}/{name}");
        if argument == false {
            problems.push(format!("{place} is not described"));
        } else {
            look(root, argument, part, &place, problems);
        }
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    }
}

#[test]
fn what_differs_is_found() {
    use serde_json::json;
    let root = json!({ "a": { "type": "object", "required": ["x"], "properties": { "x": { "type": "integer", "minimum": 0 } }, "additionalProperties": false } });
    let schema = json!({ "type": "array", "items": { "$ref": "#/a" } });
    for (value, problems) in [
        (json!([]), 0),
        (json!([{ "x": 1 }]), 0),
        (json!([{ "x": -1 }]), 1),
        (json!([{ "x": "1" }]), 2),
        (json!([{}, { "x": 1, "y": 2 }]), 2),
        (json!({}), 1),
    ] {
        assert_eq!(check(&root, &schema, &value).len(), problems, "{value}");
    }
    assert_eq!(check(&root, &json!({ "maximum": 1 }), &json!(1)).len(), 1);
}
