//! A file of tokens as Hadoop's programs read it where `HADOOP_TOKEN_FILE_LOCATION` names it (`hdfs fetchdt` writes the same).
//!
//! ```text
//! file    "HDTS" | 0 (the form of Writables) | vint count, entries | vint 0 (no secret keys)
//! entry   text alias | token                  see [`super`] for text, vint, and token
//! ```
//!
//! Java's client looks for the token whose service is the address that it connects to, `ip:port`. So the same token stands in the file once
//! for each address that the NameNode's name has.

use super::{Sealed, TokenError, put_number, put_text};

/// First bytes of the file.
const MAGIC: &[u8] = b"HDTS";
/// The form: fields one after the other.
const WRITABLE: u8 = 0;

/// The file that holds `token` for each of `services` (`host:port`).
///
/// # Errors
/// If the token does not decode.
pub fn encode(token: &str, services: &[String]) -> Result<Vec<u8>, TokenError> {
    let sealed = Sealed::decode(token)?;
    let mut file = [MAGIC, &[WRITABLE]].concat();
    put_number(&mut file, services.len() as u64);
    for service in services {
        put_text(&mut file, service);
        file.extend_from_slice(&sealed.bytes(service));
    }
    put_number(&mut file, 0);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{Input, Sealed};

    /// The services of a file and the token of each, as Java reads it.
    fn decode(file: &[u8]) -> Result<Vec<(String, Vec<u8>)>, TokenError> {
        let rest = file.strip_prefix(b"HDTS\0").ok_or(TokenError::Malformed)?;
        let mut input = Input(rest);
        let mut entries = Vec::new();
        for _ in 0..input.number()? {
            let alias = input.text()?;
            let start = input.0;
            let (_, _, _, service) = (input.bytes()?, input.bytes()?, input.text()?, input.text()?);
            assert_eq!(alias, service);
            entries.push((alias, start[..start.len() - input.0.len()].to_vec()));
        }
        match (input.number()?, input.0.is_empty()) {
            (0, true) => Ok(entries),
            _ => Err(TokenError::Malformed),
        }
    }

    #[test]
    fn golden_bytes() {
        let sealed = Sealed { identifier: vec![1, 2], password: vec![3], kind: "K".to_owned() };
        let file = encode(&sealed.encode("x"), &["h:1".to_owned()]).unwrap();
        assert_eq!(file, b"HDTS\0\x01\x03h:1\x02\x01\x02\x01\x03\x01K\x03h:1\0");
    }

    #[test]
    fn every_service_has_the_token_and_a_cut_file_is_none() {
        let sealed =
            Sealed { identifier: vec![7; 200], password: vec![3; 32], kind: "K".to_owned() };
        let services = ["127.0.0.1:9870".to_owned(), "nn:9870".to_owned()];
        let file = encode(&sealed.encode(""), &services).unwrap();
        let entries = decode(&file).unwrap();
        assert_eq!(entries.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), services);
        assert!(entries.iter().all(|(service, token)| *token == sealed.bytes(service)));
        for index in 0..file.len() {
            assert!(decode(&file[..index]).is_err(), "{index}");
        }
        assert_eq!(encode("no token!", &services), Err(TokenError::Malformed));
    }
}
