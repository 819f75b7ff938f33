//! Numbers as people read them.

use jiff::Timestamp;

/// How to write a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A count of things.
    Count,
    /// A size.
    Bytes,
    /// A length of time.
    Milliseconds,
    /// A length of time that may be very short.
    Microseconds,
}

/// A share as a percentage.
pub fn percent(share: f32) -> String {
    format!("{:.0}%", f64::from(share) * 100.0)
}

/// A moment, UTC; empty for 0.
pub fn time(ms: u64) -> String {
    if ms == 0 {
        return String::new();
    }
    let stamp = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    stamp.map(|stamp| stamp.strftime("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default()
}

/// A length of time: `850 ms`, `12.3 s`, `4 min 05 s`, `2 h 10 min`.
pub fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        60_000..3_600_000 => format!("{} min {:02} s", ms / 60_000, ms / 1_000 % 60),
        _ => format!("{} h {:02} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

/// A length of time that may be very short: `85 µs`, `1.3 ms`, then as [`duration`].
pub fn short_duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.1} ms", micros as f64 / 1_000.0),
        _ => duration(micros / 1_000),
    }
}

/// A rate: a count of things per time; empty if there is nothing to display.
pub fn rate(number: u64, micros: u64, unit: Unit) -> String {
    if micros == 0 || number == 0 {
        return String::new();
    }
    let per_second = number as f64 * 1e6 / micros as f64;
    format!("{}/s", value(per_second.round() as u64, unit))
}

/// A size: `812 B`, `1.5 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let exponent = (count.checked_ilog2().unwrap_or(0) / 10) as usize;
    match exponent.checked_sub(1).and_then(|index| UNITS.get(index)) {
        Some(unit) => format!("{:.1} {unit}", count as f64 / (1u64 << (10 * exponent)) as f64),
        None => format!("{count} B"),
    }
}

/// Bytes per second.
pub fn byte_rate(count: u64) -> String {
    format!("{}/s", bytes(count))
}

/// Processor time as cores: `0.25 cores`, from thousandths of one.
pub fn cores(permille: u64) -> String {
    format!("{:.2} cores", permille as f64 / 1000.0)
}

/// A count in groups of three digits.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// How many of something, in words: `1 byte`, `2 bytes`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {}", count(number), self::noun(number, noun))
}

/// The noun for so many of something.
pub fn noun(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{noun}{ending}")
}

/// A number with its unit.
pub fn value(number: u64, unit: Unit) -> String {
    match unit {
        Unit::Count => count(number),
        Unit::Bytes => bytes(number),
        Unit::Milliseconds => duration(number),
        Unit::Microseconds => short_duration(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "byte")), ["0 bytes", "1 byte", "2 bytes"]);
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [0, 850, 12_345, 245_000, 7_800_000].map(duration),
            ["0 ms", "850 ms", "12.3 s", "4 min 05 s", "2 h 10 min"]
        );
        assert_eq!(
            [0, 812, 1536, 1 << 30, u64::MAX].map(bytes),
            ["0 B", "812 B", "1.5 KiB", "1.0 GiB", "16.0 EiB"]
        );
        assert_eq!(
            [7, 1_234, 1_234_567].map(count),
            ["7", "1\u{202f}234", "1\u{202f}234\u{202f}567"]
        );
        assert_eq!(time(1_700_000_000_000), "2023-11-14 22:13:20");
        assert_eq!((time(0), percent(0.456)), (String::new(), "46%".to_owned()));
    }
}
