//! Tests of places and boundaries of a total order.

use super::*;

fn part(path: &str, start: u64, end: u64) -> MapPart {
    MapPart { path: path.to_owned(), range: SplitRange { start, end } }
}

#[test]
fn places_are_spread_over_what_can_be_cut_and_take_the_rest_once() {
    let splits =
        [(0, vec![part("a", 0, 100), part("b.gz", 0, 50)]), (1, vec![part("c", 1000, 1050)])];
    let found = places(&splits, 8, |_, part| !part.path.ends_with(".gz"));
    let starts: Vec<(&str, u64, u64)> = found
        .iter()
        .map(|place| (place.part.path.as_str(), place.part.range.start, place.part.range.end))
        .collect();
    assert_eq!(
        starts,
        [
            ("a", 0, 25),
            ("a", 25, 50),
            ("a", 50, 75),
            ("a", 75, 100),
            ("b.gz", 0, 50),
            ("c", 1000, 1025),
            ("c", 1025, 1050)
        ]
    );
    assert_eq!(found.last().unwrap().input, 1);
    assert!(places(&[(0, vec![part("empty", 0, 0)])], 8, |_, _| true).is_empty());
    let short = places(&[(0, vec![part("short", 7, 10)])], 8, |_, _| true);
    let ranges: Vec<_> =
        short.iter().map(|place| (place.part.range.start, place.part.range.end)).collect();
    assert_eq!(ranges, [(7, 8), (8, 9), (9, 10)], "each byte once");
}

#[test]
fn boundaries_survive_the_property() {
    for boundaries in [vec![], vec![vec![0, 255], vec![1]], vec![vec![7; 300]]] {
        assert_eq!(decode(&encode(&boundaries)), Some(boundaries));
    }
    assert_eq!(decode("0"), None);
    assert_eq!(decode("zz"), None);
}
