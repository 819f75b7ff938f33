//! Entry points for `fuzz/`.

use std::path::Path;

use protocol::checksum::{CHUNK_BYTES, CRC_BYTES};
use protocol::transfer::PacketHeader;
use transport::Packet;

use crate::config::ClientConfig;
use crate::site;

/// The name of a target, and the function that takes its bytes.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[Decoder] =
    &[("client_config", client_config), ("conf_files", conf_files), ("packets", packets)];

/// `hanno.toml`.
pub fn client_config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(config) = ClientConfig::parse(Path::new("hanno.toml"), &text) {
        let _ = (config.site(), config.user());
    }
}

/// Hadoop's configuration files, and the references in their values.
pub fn conf_files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = site::take(&text);
    let text = format!(
        "<configuration><property><name>a</name><value>{text}</value></property></configuration>"
    );
    let _ = site::take(&text);
}

/// A packet: length of the data (two bytes) and number of chunks before it (one), then its checksums and its data.
pub fn packets(bytes: &[u8]) {
    let Some(([low, high, chunks], rest)) = bytes.split_first_chunk::<3>() else { return };
    let data_bytes = u16::from_le_bytes([*low, *high]).into();
    let offset = u64::from(*chunks) * CHUNK_BYTES as u64;
    let header = PacketHeader { data_bytes, offset, ..PacketHeader::default() };
    let header = PacketHeader::decode(header.encode()).expect("it keeps the rules");
    let mut packet = Packet::default();
    packet.reset(header);
    let (crcs, data) = rest.split_at(rest.len().min(packet.crcs().len()));
    packet.crcs_mut()[..crcs.len()].copy_from_slice(crcs);
    let data = &data[..data.len().min(packet.data().len())];
    packet.data_mut()[..data.len()].copy_from_slice(data);
    let is_good = packet.verify().is_ok();
    let chunk_count = header.crc_bytes() / CRC_BYTES;
    let good = (0..chunk_count).filter(|index| packet.good_chunk(*index).is_some()).count();
    assert_eq!(is_good, good == chunk_count);
    assert!(packet.good_chunk(chunk_count).is_none());
    packet.seal();
    assert!(packet.verify().is_ok());
}

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;
