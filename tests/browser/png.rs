//! Pictures of pages made small: a page has few colours, so 256 of them do, at a third of the bytes.

use std::collections::HashMap;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
const COLOURS_MAX: usize = 256;
/// Colours nearer than this to a more frequent one share its place, while there are too many: the square of a distance.
const NEAR: u32 = 60;

type Colour = [u8; 3];

/// The same picture with a palette.
pub(super) fn reduce(png: &[u8]) -> Vec<u8> {
    let (width, height, pixels) = decode(png);
    let mut counts: HashMap<Colour, u32> = HashMap::new();
    pixels.iter().for_each(|pixel| *counts.entry(*pixel).or_default() += 1);
    let mut colours: Vec<(Colour, u32)> = counts.into_iter().collect();
    colours.sort_by_key(|(colour, count)| (std::cmp::Reverse(*count), *colour));
    let mut palette: Vec<Colour> = Vec::new();
    let fits = colours.len() <= COLOURS_MAX;
    for (colour, _) in &colours {
        let is_far = || palette.iter().all(|other| distance(*other, *colour) > NEAR);
        if palette.len() < COLOURS_MAX && (fits || is_far()) {
            palette.push(*colour);
        }
    }
    let nearest = |colour: Colour| {
        let places = palette.iter().enumerate();
        places
            .min_by_key(|(_, other)| distance(**other, colour))
            .map_or(0, |(place, _)| place as u8)
    };
    let places: HashMap<Colour, u8> =
        colours.iter().map(|(colour, _)| (*colour, nearest(*colour))).collect();
    let rows = pixels
        .chunks(width)
        .flat_map(|row| std::iter::once(0).chain(row.iter().map(|pixel| places[pixel])));
    let rows: Vec<u8> = rows.collect();
    encode(width, height, &palette, &rows)
}

fn distance(a: Colour, b: Colour) -> u32 {
    let square = |(a, b): (u8, u8)| u32::from(a.abs_diff(b)).pow(2);
    a.into_iter().zip(b).map(square).sum()
}

/// Pixels of a picture as browsers write them: eight bits per channel, with or without alpha, not interlaced.
fn decode(png: &[u8]) -> (usize, usize, Vec<Colour>) {
    let mut rest = png.strip_prefix(&SIGNATURE).expect("a PNG");
    let (mut header, mut data) = (&[][..], Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (kind, after) = after.split_at(4);
        let (body, after) = after.split_at(u32::from_be_bytes(*length) as usize);
        match kind {
            b"IHDR" => header = body,
            b"IDAT" => data.extend_from_slice(body),
            _ => {}
        }
        rest = &after[4..];
    }
    let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap()) as usize;
    let (width, height) = (number(0), number(4));
    assert_eq!((header[8], header[12]), (8, 0), "eight bits, not interlaced");
    let channels = match header[9] {
        2 => 3,
        6 => 4,
        kind => panic!("colours of kind {kind}"),
    };
    let mut bytes = Vec::new();
    ZlibDecoder::new(&data[..]).read_to_end(&mut bytes).unwrap();
    let stride = width * channels;
    let mut above = vec![0; stride];
    let mut pixels = Vec::with_capacity(width * height);
    for row in bytes.chunks_mut(stride + 1) {
        let (filter, row) = row.split_first_mut().unwrap();
        unfilter(*filter, row, &above, channels);
        pixels.extend(row.chunks(channels).map(|pixel| [pixel[0], pixel[1], pixel[2]]));
        above.copy_from_slice(row);
    }
    (width, height, pixels)
}

fn unfilter(filter: u8, row: &mut [u8], above: &[u8], channels: usize) {
    for place in 0..row.len() {
        let before = |row: &[u8]| place.checked_sub(channels).map_or(0, |place| row[place]);
        let (left, up, corner) = (before(row), above[place], before(above));
        let guess = match filter {
            0 => 0,
            1 => left,
            2 => up,
            3 => left.midpoint(up),
            4 => {
                let sum = i16::from(left) + i16::from(up) - i16::from(corner);
                let near = |value: u8| (sum - i16::from(value)).abs();
                [left, up, corner].into_iter().min_by_key(|value| near(*value)).unwrap()
            }
            filter => panic!("filter {filter}"),
        };
        row[place] = row[place].wrapping_add(guess);
    }
}

fn encode(width: usize, height: usize, palette: &[Colour], rows: &[u8]) -> Vec<u8> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed.write_all(rows).unwrap();
    let size = |number: usize| u32::try_from(number).unwrap().to_be_bytes();
    let header = [&size(width)[..], &size(height), &[8, 3, 0, 0, 0]].concat();
    let mut png = SIGNATURE.to_vec();
    for (kind, body) in [
        (b"IHDR", header),
        (b"PLTE", palette.concat()),
        (b"IDAT", packed.finish().unwrap()),
        (b"IEND", Vec::new()),
    ] {
        png.extend_from_slice(&size(body.len()));
        let checked = [&kind[..], &body].concat();
        png.extend_from_slice(&checked);
        png.extend_from_slice(&crc32fast::hash(&checked).to_be_bytes());
    }
    png
}

#[test]
fn rows_of_every_filter_are_read() {
    let size = |number: u32| number.to_be_bytes();
    // The same two rows of two pixels, told by each filter as the standard's text says.
    for (filter, second) in [
        (0, [70, 80, 90, 100, 110, 120]),
        (1, [70, 80, 90, 30, 30, 30]),
        (2, [60, 60, 60, 60, 60, 60]),
        (3, [65, 70, 75, 45, 45, 45]),
        (4, [60, 60, 60, 30, 30, 30]),
    ] {
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&[0, 10, 20, 30, 40, 50, 60, filter]).unwrap();
        packed.write_all(&second).unwrap();
        let mut png = SIGNATURE.to_vec();
        let header = [&size(2)[..], &size(2), &[8, 2, 0, 0, 0]].concat();
        for (kind, body) in [(b"IHDR", header), (b"IDAT", packed.finish().unwrap())] {
            png.extend([&size(body.len() as u32)[..], kind, &body, &[0; 4]].concat());
        }
        let pixels = [[10, 20, 30], [40, 50, 60], [70, 80, 90], [100, 110, 120]];
        assert_eq!(decode(&png), (2, 2, pixels.to_vec()), "filter {filter}");
        assert!(reduce(&png).len() < 200);
    }
}
