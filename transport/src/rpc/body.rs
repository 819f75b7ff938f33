//! The body of the answer to a GET. It can take hours, as the events of a job do, but it is never silent for long; where it is kept whole, its length is
//! bounded, too.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Response;
use serde::de::DeserializeOwned;

use crate::error::RpcError;

/// How long a body may be silent: as long as a daemon has to begin its answer.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Longest body that is kept whole, bytes: 1 GiB. The history of a job of a million tasks has about half of that.
const WHOLE_BYTES_MAX: usize = 1 << 30;

/// A body that arrives.
#[derive(Debug)]
pub struct Body {
    response: Response,
    address: String,
    silence_max: Duration,
}

impl Body {
    pub(crate) fn new(response: Response, address: &str) -> Self {
        Body { response, address: address.to_owned(), silence_max: SILENCE_MAX }
    }

    /// With another bound for silence than a minute.
    pub fn silent_for(self, silence_max: Duration) -> Self {
        Body { silence_max, ..self }
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// [`RpcError::Stalled`], [`RpcError::Unreachable`].
    pub async fn next(&mut self) -> Result<Option<Bytes>, RpcError> {
        let Body { response, address, silence_max: limit } = self;
        match tokio::time::timeout(*limit, response.chunk()).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(source)) => Err(RpcError::Unreachable {
                address: address.clone(),
                source: source.without_url(),
            }),
            Err(_) => Err(RpcError::Stalled { address: address.clone(), limit: *limit }),
        }
    }

    /// All of it.
    ///
    /// # Errors
    /// As [`Body::next`], and [`RpcError::TooLong`].
    pub async fn whole(mut self) -> Result<Vec<u8>, RpcError> {
        let mut whole = Vec::new();
        while let Some(bytes) = self.next().await? {
            if whole.len() + bytes.len() > WHOLE_BYTES_MAX {
                return Err(RpcError::TooLong { address: self.address, limit: WHOLE_BYTES_MAX });
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }

    /// Its first `count` bytes and whatever came with the last of them, however long it claims to be.
    ///
    /// # Errors
    /// As [`Body::next`].
    pub async fn at_most(mut self, count: u64) -> Result<Vec<u8>, RpcError> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < count {
            match self.next().await? {
                Some(more) => bytes.extend_from_slice(&more),
                None => break,
            }
        }
        Ok(bytes)
    }

    /// All of it, as text; what is not UTF-8 is replaced.
    ///
    /// # Errors
    /// As [`Body::whole`].
    pub async fn text(self) -> Result<String, RpcError> {
        Ok(String::from_utf8_lossy(&self.whole().await?).into_owned())
    }

    /// All of it, decoded.
    ///
    /// # Errors
    /// As [`Body::whole`], and [`RpcError::NotJson`].
    pub async fn json<T: DeserializeOwned>(self) -> Result<T, RpcError> {
        let address = self.address.clone();
        let whole = self.whole().await?;
        serde_json::from_slice(&whole).map_err(|source| RpcError::NotJson { address, source })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::rpc::http;

    /// The body of an answer whose server sends `pieces` and then holds the connection.
    async fn body(pieces: Vec<&'static str>) -> (Body, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut bytes = [0; 4096];
                let count = stream.read(&mut bytes).unwrap();
                assert!(count > 0, "the request ends");
                head.extend_from_slice(&bytes[..count]);
            }
            pieces.iter().for_each(|piece| stream.write_all(piece.as_bytes()).unwrap());
            stream
        });
        let response = http::plain().get(&url).send().await.unwrap();
        (Body::new(response, &url), serving.join().unwrap())
    }

    #[tokio::test]
    async fn a_body_is_never_silent_for_long() {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n";
        let limit = Duration::from_millis(50);
        let (begun, _held) = body(vec![head, "{\"a\""]).await;
        let stalled = begun.silent_for(limit).whole().await.unwrap_err();
        assert!(matches!(stalled, RpcError::Stalled { .. }), "{stalled:?}");
        let (mut begun, held) = body(vec![head, "{\"a\""]).await;
        assert_eq!(begun.next().await.unwrap().unwrap(), "{\"a\"");
        drop(held);
        let broken = begun.next().await.unwrap_err();
        assert!(matches!(broken, RpcError::Unreachable { .. }), "{broken:?}");
    }

    #[tokio::test]
    async fn a_body_without_end_is_not_kept() {
        const WANTED: u64 = 100_000;
        /// What a connection may have given at once.
        const AHEAD_BYTES_MAX: usize = 4 << 20;
        let (endless, mut stream) =
            body(vec!["HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"]).await;
        std::thread::spawn(move || while stream.write_all(&[7; 64 << 10]).is_ok() {});
        let count = endless.at_most(WANTED).await.unwrap().len();
        assert!((WANTED as usize..AHEAD_BYTES_MAX).contains(&count), "{count}");
    }

    #[tokio::test]
    async fn a_whole_body_is_decoded() {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n";
        let (body_of_one, _held) = body(vec![head, "{\"a\":", "1}"]).await;
        let found: serde_json::Value = body_of_one.json().await.unwrap();
        assert_eq!(found["a"], 1);
        let (other, _held) = body(vec![head, "<a></a>"]).await;
        let refused = other.json::<serde_json::Value>().await.unwrap_err();
        assert!(matches!(refused, RpcError::NotJson { .. }), "{refused:?}");
    }
}
