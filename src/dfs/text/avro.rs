//! Avro data files as one line of JSON per record, in the form of Java's `JsonEncoder`: a value of a union names its branch, bytes
//! are the characters of Latin-1, logical types show the value that they are stored as.

use std::collections::HashMap;
use std::io::{self, Read};

use apache_avro::Reader;
use apache_avro::schema::{Name, ResolvedSchema, Schema, UuidSchema};
use apache_avro::types::Value;
use mr_api::writable::show;

/// First bytes of an Avro data file.
pub(super) const MAGIC: &[u8] = b"Obj\x01";

/// The records of a data file as text.
pub(super) struct Records<R> {
    records: Reader<'static, R>,
    json: Json,
}

impl<R: Read> Records<R> {
    /// Reads the header.
    pub(super) fn new(source: R) -> io::Result<Self> {
        let records = Reader::new(source).map_err(damaged)?;
        let schema = records.writer_schema().clone();
        let resolved = ResolvedSchema::new(&schema).map_err(damaged)?;
        let named = resolved.get_names().iter();
        let named = named.map(|(name, schema)| (name.clone(), (*schema).clone())).collect();
        Ok(Records { records, json: Json { schema, named } })
    }
}

impl<R: Read> super::Records for Records<R> {
    fn append(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        let Some(record) = self.records.next() else { return Ok(false) };
        self.json.append(&record.map_err(damaged)?, &self.json.schema, line)?;
        Ok(true)
    }
}

/// What values look like.
struct Json {
    schema: Schema,
    /// Types that the schema refers to by name.
    named: HashMap<Name, Schema>,
}

impl Json {
    fn append(&self, value: &Value, schema: &Schema, out: &mut Vec<u8>) -> io::Result<()> {
        if let Schema::Ref { name } = schema {
            let named = self.named.get(name).ok_or_else(unfit)?;
            return self.append(value, named, out);
        }
        match (value, schema) {
            (Value::Null, _) => out.extend_from_slice(b"null"),
            (Value::Boolean(value), _) => out.extend_from_slice(value.to_string().as_bytes()),
            (Value::Int(value) | Value::Date(value) | Value::TimeMillis(value), _) => {
                out.extend_from_slice(value.to_string().as_bytes());
            }
            (Value::Float(value), _) => {
                append_number("org.apache.hadoop.io.FloatWritable", &value.to_be_bytes(), out)?;
            }
            (Value::Double(value), _) => {
                append_number("org.apache.hadoop.io.DoubleWritable", &value.to_be_bytes(), out)?;
            }
            (Value::Bytes(bytes) | Value::Fixed(_, bytes), _) => append_bytes(bytes, out)?,
            (Value::Decimal(value), _) => {
                append_bytes(&Vec::<u8>::try_from(value).map_err(damaged)?, out)?;
            }
            (Value::Duration(value), _) => append_bytes(&<[u8; 12]>::from(*value), out)?,
            (Value::BigDecimal(value), _) => append_text(&value.to_string(), out)?,
            (Value::Uuid(value), Schema::Uuid(UuidSchema::String)) => {
                append_text(&value.to_string(), out)?;
            }
            (Value::Uuid(value), _) => append_bytes(value.as_bytes(), out)?,
            (Value::String(text) | Value::Enum(_, text), _) => append_text(text, out)?,
            (Value::Union(branch, value), Schema::Union(union)) => {
                let branch = usize::try_from(*branch).ok().and_then(|at| union.variants().get(at));
                self.append_branch(value, branch.ok_or_else(unfit)?, out)?;
            }
            (Value::Array(items), Schema::Array(array)) => {
                append_list(items, *b"[]", out, |item, out| self.append(item, &array.items, out))?;
            }
            (Value::Map(entries), Schema::Map(map)) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                append_list(&entries, *b"{}", out, |(key, value), out| {
                    append_text(key, out)?;
                    out.push(b':');
                    self.append(value, &map.types, out)
                })?;
            }
            (Value::Record(fields), Schema::Record(record))
                if fields.len() == record.fields.len() =>
            {
                let fields: Vec<_> = fields.iter().zip(&record.fields).collect();
                append_list(&fields, *b"{}", out, |((name, value), field), out| {
                    append_text(name, out)?;
                    out.push(b':');
                    self.append(value, &field.schema, out)
                })?;
            }
            (value, _) => {
                out.extend_from_slice(long(value).ok_or_else(unfit)?.to_string().as_bytes())
            }
        }
        Ok(())
    }

    /// `null`, or an object of one field that is named as the branch's type.
    fn append_branch(&self, value: &Value, branch: &Schema, out: &mut Vec<u8>) -> io::Result<()> {
        if matches!(branch, Schema::Null) {
            return self.append(value, branch, out);
        }
        out.push(b'{');
        append_text(&type_name(branch), out)?;
        out.push(b':');
        self.append(value, branch, out)?;
        out.push(b'}');
        Ok(())
    }
}

/// The value of everything that is stored as a `long`.
fn long(value: &Value) -> Option<i64> {
    match value {
        Value::Long(value)
        | Value::TimeMicros(value)
        | Value::TimestampMillis(value)
        | Value::TimestampMicros(value)
        | Value::TimestampNanos(value)
        | Value::LocalTimestampMillis(value)
        | Value::LocalTimestampMicros(value)
        | Value::LocalTimestampNanos(value) => Some(*value),
        _ => None,
    }
}

/// The full name of a type that has one, else what the type is stored as.
fn type_name(schema: &Schema) -> String {
    if let Some(name) = schema.name() {
        return name.to_string();
    }
    let name = match schema {
        Schema::Null => "null",
        Schema::Boolean => "boolean",
        Schema::Int | Schema::Date | Schema::TimeMillis => "int",
        Schema::Float => "float",
        Schema::Double => "double",
        Schema::String | Schema::Uuid(UuidSchema::String) => "string",
        Schema::Array(_) => "array",
        Schema::Map(_) => "map",
        Schema::Bytes | Schema::Decimal(_) | Schema::BigDecimal | Schema::Uuid(_) => "bytes",
        _ => "long",
    };
    name.to_owned()
}

fn append_list<T>(
    items: &[T],
    [open, close]: [u8; 2],
    out: &mut Vec<u8>,
    mut append: impl FnMut(&T, &mut Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    out.push(open);
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        append(item, out)?;
    }
    out.push(close);
    Ok(())
}

/// A floating-point number as Java shows it; what JSON has no number for is in quotes.
fn append_number(class: &str, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let start = out.len();
    show(class, bytes, out).map_err(|_| unfit())?;
    if !out[start..].last().is_some_and(u8::is_ascii_digit) {
        out.insert(start, b'"');
        out.push(b'"');
    }
    Ok(())
}

fn append_text(text: &str, out: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer(out, text).map_err(io::Error::from)
}

/// Each byte is a character of Latin-1.
fn append_bytes(bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    append_text(&bytes.iter().copied().map(char::from).collect::<String>(), out)
}

fn damaged(error: apache_avro::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn unfit() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a value does not fit the file's schema")
}

#[cfg(test)]
mod tests {
    use super::*;
    use apache_avro::types::Record;
    use apache_avro::{Codec, Writer};

    const SCHEMA: &str = r#"{"type": "record", "name": "Person", "namespace": "org.example", "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": ["null", "int"]},
        {"name": "raw", "type": "bytes"},
        {"name": "score", "type": "double"},
        {"name": "tags", "type": {"type": "map", "values": "long"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "kinds", "type": {"type": "array", "items": ["Kind", "string"]}},
        {"name": "born", "type": {"type": "int", "logicalType": "date"}},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {"name": "friend", "type": ["null", "Person"]}]}"#;

    fn person(schema: &Schema, name: &str, age: Value, friend: Value) -> Value {
        let mut record = Record::new(schema).unwrap();
        let kind = |at, text: &str| Value::Enum(at, text.to_owned());
        record.put("name", name);
        record.put("age", age);
        record.put("raw", Value::Bytes(vec![b'a', 0, 0xff, b'"']));
        record.put("score", 1e10);
        record
            .put("tags", Value::Map([("b".into(), 2i64.into()), ("a".into(), 1i64.into())].into()));
        record.put("kind", kind(1, "B"));
        let kinds =
            [Value::Union(0, Box::new(kind(0, "A"))), Value::Union(1, Box::new("x".into()))];
        record.put("kinds", Value::Array(kinds.to_vec()));
        record.put("born", Value::Date(-1));
        record.put("seen", Value::TimestampMillis(1_767_609_005_000));
        record.put("price", Value::Decimal(vec![0x04, 0xd2].into()));
        record.put("friend", friend);
        record.into()
    }

    fn file(codec: Codec) -> Vec<u8> {
        let schema = Schema::parse_str(SCHEMA).unwrap();
        let mut writer = Writer::with_codec(&schema, Vec::new(), codec).unwrap();
        let none = || Value::Union(0, Box::new(Value::Null));
        let some = |value: Value| Value::Union(1, Box::new(value));
        let ann = person(&schema, "Ann", some(Value::Int(7)), none());
        writer.append_value(ann.clone()).unwrap();
        writer.append_value(person(&schema, "Bé", none(), some(ann))).unwrap();
        writer.into_inner().unwrap()
    }

    fn lines(file: &[u8]) -> io::Result<String> {
        let mut out = String::new();
        super::super::Lines::of(Records::new(file)?).read_to_string(&mut out)?;
        Ok(out)
    }

    #[test]
    fn records_are_lines_of_javas_json() {
        let ann = r#"{"name":"Ann","age":{"int":7},"raw":"a\u0000ÿ\"","score":1.0E10,"tags":{"a":1,"b":2},"kind":"B","kinds":[{"org.example.Kind":"A"},{"string":"x"}],"born":-1,"seen":1767609005000,"price":"\u0004Ò","friend":null}"#;
        let be = ann.replace("Ann", "Bé").replace(r#"{"int":7}"#, "null");
        let be =
            be.replace(r#""friend":null"#, &format!(r#""friend":{{"org.example.Person":{ann}}}"#));
        for codec in [Codec::Null, Codec::Deflate(Default::default()), Codec::Snappy] {
            let file = file(codec);
            assert!(file.starts_with(MAGIC));
            assert_eq!(lines(&file).unwrap(), format!("{ann}\n{be}\n"));
            for cut in [3, 40, file.len() - 1] {
                assert!(lines(&file[..cut]).is_err(), "{cut}");
            }
        }
    }

    #[test]
    fn what_json_has_no_number_for_is_in_quotes() {
        let schema = Schema::parse_str(r#""float""#).unwrap();
        let mut writer = Writer::new(&schema, Vec::new()).unwrap();
        for value in [1.5f32, f32::NAN, f32::NEG_INFINITY] {
            writer.append_value(Value::Float(value)).unwrap();
        }
        assert_eq!(lines(&writer.into_inner().unwrap()).unwrap(), "1.5\n\"NaN\"\n\"-Infinity\"\n");
    }
}
