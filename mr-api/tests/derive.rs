//! Derived keys and values: the bytes of tuples, the order of `PartialOrd`, refusal of what is no encoding.

use mr_api::datum::{Datum, Desc, Key, Put};
use mr_api::testing::assert_order_preserving;
use proptest::prelude::*;

#[derive(Datum, Key, Clone, PartialEq, PartialOrd, Debug)]
struct Reading {
    station: String,
    tenths: Desc<i32>,
    note: Option<String>,
}

#[derive(Datum, Key, Clone, PartialEq, PartialOrd, Debug)]
struct Pair<A, B>(A, B);

#[derive(Datum, Key, Clone, PartialEq, PartialOrd, Debug)]
struct Unit;

#[derive(Datum, Key, Clone, PartialEq, PartialOrd, Debug)]
enum Event {
    Begin,
    At(u64),
    Named { name: String, reading: Pair<u8, Vec<u8>> },
    End(Unit),
}

/// What is no key can be a value.
#[derive(Datum, Clone, PartialEq, Debug)]
struct Settings(mr_api::datum::Serde<Vec<String>>);

fn encode<D: Datum>(value: &impl Put<D>) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.put(&mut bytes);
    bytes
}

fn event() -> impl Strategy<Value = Event> {
    let named = ("[\0a\u{1}é]{0,3}", any::<u8>(), prop::collection::vec(0u8..3, 0..3));
    prop_oneof![
        Just(Event::Begin),
        any::<u64>().prop_map(Event::At),
        named.prop_map(|(name, a, b)| Event::Named { name, reading: Pair(a, b) }),
        Just(Event::End(Unit)),
    ]
}

fn reading() -> impl Strategy<Value = Reading> {
    let fields = ("[\0a]{0,3}", -2i32..2, prop::option::of("[\0b]{0,2}"));
    fields.prop_map(|(station, tenths, note)| Reading { station, tenths: Desc(tenths), note })
}

proptest! {
    #[test]
    fn encodings_sort_as_values(a in event(), b in event(), c in reading(), d in reading()) {
        assert_order_preserving(&[a.clone(), b.clone()]);
        assert_order_preserving(&[c.clone(), d.clone()]);
        assert_order_preserving(&[Pair(c.clone(), a.clone()), Pair(d, b)]);
        assert_order_preserving(&[Some((a.clone(), c.clone())), None]);
        assert_order_preserving(&[Desc(Pair(a, c))]);
    }

    #[test]
    fn any_bytes_decode_or_fail(bytes in prop::collection::vec(0u8..5, 0..12)) {
        let _ = Reading::read(&bytes);
        let _ = Settings::read(&bytes);
        if let Ok(event) = Event::read(&bytes) {
            prop_assert_eq!(encode::<Event>(&event), bytes.clone());
        }
        let (mut out, mut rest) = (Vec::new(), &bytes[..]);
        let _ = (Event::text(&bytes, &mut out), Event::describe(&bytes));
        if Event::read_part(&mut rest).is_ok() {
            prop_assert!(bytes.ends_with(rest) && Event::describe_part(&mut &bytes[..]).is_ok());
        }
    }
}

#[test]
fn a_struct_has_the_bytes_of_a_tuple() {
    let reading = Reading { station: "a\0".into(), tenths: Desc(5), note: Some("x".into()) };
    let tuple = ("a\0".to_owned(), Desc(5), Some("x".to_owned()));
    let of_tuple = encode::<(String, Desc<i32>, Option<String>)>(&tuple);
    assert_eq!(encode::<Reading>(&reading), of_tuple);
    assert_eq!(encode::<Unit>(&Unit), [0u8; 0]);
    let named = Event::Named { name: "n".into(), reading: Pair(7, vec![0, 1]) };
    assert_eq!(encode::<Event>(&named), [2, b'n', 0, 0, 7, 0, 1], "these bytes never change");
    assert_eq!(encode::<(Event, u8)>(&(named, 9)), [2, b'n', 0, 0, 7, 0, 0xff, 1, 0, 0, 9]);
}

#[test]
fn people_and_text_files_see_fields() {
    let named = encode::<Event>(&Event::Named { name: "n".into(), reading: Pair(7, vec![b'x']) });
    assert_eq!(Event::describe(&named), "Named, n, 7, x");
    assert_eq!(Event::describe(&[9]), "\\t");
    let mut out = Vec::new();
    assert!(Event::text(&named, &mut out).unwrap());
    assert_eq!(out, b"Named\tn\t7\tx");
    assert_eq!(
        Reading::describe(&encode::<Reading>(&Reading {
            station: "oslo".into(),
            tenths: Desc(-3),
            note: None
        })),
        "oslo, -3, none"
    );
}

#[test]
fn what_is_cut_or_goes_on_is_refused() {
    let bytes = encode::<Event>(&Event::At(3));
    for length in 0..bytes.len() {
        assert!(Event::read(&bytes[..length]).is_err(), "{length}");
    }
    assert!(Event::read(&[&bytes[..], &[0]].concat()).is_err());
    assert!(Event::read(&[4]).is_err() && Event::read(&[0, 0]).is_err());
    assert!(Unit::read(&[0]).is_err());
    let settings = Settings(mr_api::datum::Serde(vec!["a".into()]));
    assert_eq!(Settings::read(&encode::<Settings>(&settings)).unwrap(), settings);
}
