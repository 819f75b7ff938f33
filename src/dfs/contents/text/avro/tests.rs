//! Files that the format's own library wrote (seeds of the fuzz target), and hostile files.

use std::io::{self, Read};

use super::json::{DEPTH_MAX, EMPTY_MAX, TEXT_BYTES_MAX};
use super::schema::SCHEMA_BYTES_MAX;
use super::*;

macro_rules! seed {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/avro_files/", $name))
    };
}

fn lines(file: &[u8]) -> io::Result<String> {
    let mut out = String::new();
    super::super::Lines::of(Records::new(file)?).read_to_string(&mut out)?;
    Ok(out)
}

fn number(number: i64) -> Vec<u8> {
    let (mut bytes, mut left) = (Vec::new(), (number << 1 ^ number >> 63).cast_unsigned());
    while left >= 0x80 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes
}

fn entry(key: &str, value: &[u8]) -> Vec<u8> {
    [number(key.len() as i64), key.into(), number(value.len() as i64), value.into()].concat()
}

/// A file of one block that says it has `count` records.
fn file(schema: &str, codec: &str, count: i64, block: &[u8]) -> Vec<u8> {
    let mut file = [MAGIC.to_vec(), number(2)].concat();
    file.extend(entry("avro.schema", schema.as_bytes()));
    file.extend(entry("avro.codec", codec.as_bytes()));
    file.extend([0; 1 + SYNC_BYTES]);
    file.extend(number(count));
    file.extend(number(block.len() as i64));
    file.extend(block);
    file.extend([0; SYNC_BYTES]);
    file
}

fn refusal(file: &[u8]) -> String {
    lines(file).unwrap_err().to_string()
}

#[test]
fn records_are_lines_of_javas_json() {
    let ann = r#"{"name":"Ann","age":{"int":7},"raw":"a\u0000ÿ\"","score":1.0E10,"tags":{"a":1,"b":2},"kind":"B","kinds":[{"org.example.Kind":"A"},{"string":"x"}],"born":-1,"seen":1767609005000,"price":"\u0004Ò","friend":null}"#;
    let be = ann.replace("Ann", "Bé").replace(r#"{"int":7}"#, "null");
    let be = be.replace(r#""friend":null"#, &format!(r#""friend":{{"org.example.Person":{ann}}}"#));
    for file in [
        &seed!("person-null.avro")[..],
        seed!("person-deflate.avro"),
        seed!("person-snappy.avro"),
        seed!("person-bzip2.avro"),
        seed!("person-zstandard.avro"),
    ] {
        assert!(file.starts_with(MAGIC));
        assert_eq!(lines(file).unwrap(), format!("{ann}\n{be}\n"));
        for cut in (0..file.len()).filter(|cut| *cut != header_bytes(file)) {
            assert!(lines(&file[..cut]).is_err(), "{cut}");
        }
    }
}

/// Length of the header, where a file may end.
fn header_bytes(file: &[u8]) -> usize {
    let mut rest = file;
    Records::new(&mut rest).unwrap();
    file.len() - rest.len()
}

#[test]
fn what_json_has_no_number_for_is_in_quotes() {
    assert_eq!(lines(seed!("floats.avro")).unwrap(), "1.5\n\"NaN\"\n\"-Infinity\"\n");
}

#[test]
fn every_type_is_shown_as_it_is_stored() {
    for (schema, block, text) in [
        (r#""null""#, &b""[..], "null"),
        (r#"{"type":"boolean"}"#, b"\x01", "true"),
        (r#"{"type":{"type":"long"}}"#, b"\x01", "-1"),
        (r#"{"type":"string","logicalType":"uuid"}"#, b"\x02u", r#""u""#),
        (r#"{"type":"bytes","logicalType":"big-decimal"}"#, b"\x02\xff", "\"ÿ\""),
        (r#"{"type":"fixed","name":"F","size":2}"#, b"ab", r#""ab""#),
        (r#"["null",{"type":"fixed","name":"a.F","size":1}]"#, b"\x02x", r#"{"a.F":"x"}"#),
        (r#"["long",{"type":"array","items":"int"}]"#, b"\x02\x01\x02\x04\0", r#"{"array":[2]}"#),
        (r#"{"type":"map","values":"int"}"#, b"\x04\x02b\x02\x02a\x04\0", r#"{"a":2,"b":1}"#),
        (r#"{"type":"record","name":"E","fields":[]}"#, b"", "{}"),
    ] {
        assert_eq!(
            lines(&file(schema, "null", 1, block)).unwrap(),
            format!("{text}\n"),
            "{schema}"
        );
    }
}

#[test]
fn schemas_that_are_none_are_named() {
    for (schema, problem) in [
        ("{", "its schema: EOF"),
        ("7", "something that is no type"),
        (r#""Nowhere""#, "no type with the name Nowhere"),
        (r#"{"name":"x"}"#, "a type without `type`"),
        (r#"{"type":"array"}"#, "array without `items`"),
        (r#"{"type":"enum","name":"E","symbols":[1]}"#, "a symbol that is no text"),
        (r#"{"type":"fixed","name":"F","size":-1}"#, "a size that is no number"),
        (r#"{"type":"record","fields":[]}"#, "a type without a name"),
        (r#"[{"type":["null"]}]"#, "a union in a union"),
        (
            r#"[{"type":"fixed","name":"F","size":1},{"type":"fixed","name":"F","size":1}]"#,
            "two types with the name F",
        ),
    ] {
        let text = refusal(&file(schema, "null", 0, b""));
        assert!(text.starts_with("Avro file: ") && text.contains(problem), "{schema}: {text}");
    }
    let text = refusal(&file(r#""int""#, "xz", 0, b""));
    assert_eq!(text, "Avro file: its codec xz is not known");
}

/// Each takes a moment and little memory, and says why it is refused.
#[test]
fn hostile_files_are_refused() {
    const ENDLESS: i64 = 1 << 50;
    let list = r#"{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}"#;
    let arrays = |depth: usize| {
        format!("{}\"int\"{}", r#"{"type":"array","items":"#.repeat(depth), "}".repeat(depth))
    };
    let deflated = {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), Default::default());
        io::Write::write_all(&mut encoder, &vec![0; BLOCK_BYTES_MAX + 1]).unwrap();
        encoder.finish().unwrap()
    };
    let nulls = [number(ENDLESS), vec![0]].concat();
    let wide: Vec<String> =
        (0..4000).map(|n| format!(r#"{{"name":"{n:0>200}","type":"null"}}"#)).collect();
    let wide = format!(
        r#"{{"type":"array","items":{{"type":"record","name":"W","fields":[{}]}}}}"#,
        wide.join(",")
    );
    let depth = format!("more than {DEPTH_MAX} deep");
    let empty = format!("more than {EMPTY_MAX} values that take no byte");
    for (what, file, problem) in [
        ("a list of a million", file(list, "null", 1, &[2; 1 << 20]), &depth[..]),
        ("endless nulls", file(r#""null""#, "null", ENDLESS, b""), &empty),
        (
            "an endless array of nulls",
            file(&arrays(1).replace("int", "null"), "null", 1, &nulls),
            &empty,
        ),
        (
            "endless records without fields",
            file(r#"{"type":"record","name":"E","fields":[]}"#, "null", i64::MAX, b""),
            &empty,
        ),
        (
            "few bytes, much text",
            file(&wide, "null", 1, &nulls),
            &format!("longer than {TEXT_BYTES_MAX} bytes of text"),
        ),
        ("a schema in a schema", file(&arrays(100_000), "null", 1, b""), "recursion limit"),
        (
            "a long schema",
            file(&" ".repeat(SCHEMA_BYTES_MAX + 1), "null", 1, b""),
            "its schema is longer",
        ),
        ("an endless array", file(&arrays(1), "null", 1, &number(ENDLESS)), "cut off"),
        ("an array of fewer than none", file(&arrays(1), "null", 1, &number(i64::MIN)), "cut off"),
        ("a bomb", file(r#""null""#, "deflate", 1, &deflated), "longer than 256 MiB"),
        ("half a snappy block", file(r#""null""#, "snappy", 1, b"abc"), "cut off"),
        (
            "a long snappy block",
            file(r#""null""#, "snappy", 1, b"\xff\xff\xff\xff\x0f0000"),
            "longer than 256 MiB",
        ),
        ("a negative count", file(r#""null""#, "null", -1, b""), "fewer than no records"),
        (
            "bytes behind the records",
            file(r#""int""#, "null", 1, &[2, 2]),
            "longer than its records",
        ),
    ] {
        let text = refusal(&file);
        assert!(text.contains(problem), "{what}: {text}");
    }
}

#[test]
fn lengths_that_a_file_claims_take_no_memory() {
    const ENDLESS: i64 = 1 << 50;
    let claims = |bytes: i64| {
        let mut claims = file(r#""null""#, "null", 0, b"");
        claims.extend([number(1), number(bytes)].concat());
        claims
    };
    assert!(refusal(&claims(ENDLESS)).contains("longer than 256 MiB"));
    assert!(refusal(&claims(-1)).contains("longer than 256 MiB"));
    assert_eq!(lines(&claims(1 << 20)).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    let metadata = [MAGIC, &number(1), &number(1 << 40)].concat();
    assert!(refusal(&metadata).contains("its metadata is longer"));
    let metadata = [MAGIC, &number(ENDLESS), &vec![0; METADATA_BYTES_MAX + 2]].concat();
    assert!(refusal(&metadata).contains("its metadata is longer"));
}

/// The fuzz targets here.
const DECODERS: &[Decoder] = &[("avro_files", avro_files)];

/// The name of its seeds, and the function that takes them.
type Decoder = (&'static str, fn(&[u8]));

#[path = "../../../../../fuzz/replay.rs"]
mod replay;
