//! A bare HTTP/1.1 client on a socket of its own: it sends exactly the bytes it is told, right or wrong, and follows nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Its status.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{:?} {}", self.headers, self.text());
        self
    }
}

/// A connection.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// To `http://host:port…`; what follows the address is not used.
    pub(crate) fn open(url: &str) -> Self {
        let (address, _) = split(url);
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(ANSWER_MAX)).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Head of a request for the path of `url`.
    pub(crate) fn send_head(&mut self, method: &str, url: &str, headers: &str) {
        let (address, target) = split(url);
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n");
        self.send(head.as_bytes()).unwrap();
    }

    /// The next answer, `100 Continue` included.
    pub(crate) fn answer(&mut self) -> Answer {
        let mut answer = self.head();
        if answer.status >= 200 {
            answer.body = self.body(&answer);
        }
        answer
    }

    /// The next answer without its body, which is left to be read.
    pub(crate) fn head(&mut self) -> Answer {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {line:?}"));
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Answer { status, headers, body: Vec::new() }
    }

    /// Up to `max` bytes as they come: fewer where the other side ends the connection, in order or not.
    pub(crate) fn bytes(&mut self, max: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = self.stream.by_ref().take(max as u64).read_to_end(&mut bytes);
        if let Err(error) = read {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        bytes
    }

    fn body(&mut self, answer: &Answer) -> Vec<u8> {
        let mut body = Vec::new();
        if answer.header("transfer-encoding").is_some() {
            loop {
                let mut line = String::new();
                self.stream.read_line(&mut line).unwrap();
                let size = usize::from_str_radix(line.trim(), 16).unwrap();
                let start = body.len();
                body.resize(start + size, 0);
                self.stream.read_exact(&mut body[start..]).unwrap();
                self.stream.read_exact(&mut [0; 2]).unwrap();
                if size == 0 {
                    return body;
                }
            }
        }
        let length = answer.header("content-length").map_or(0, |text| text.parse().unwrap());
        body.resize(length, 0);
        self.stream.read_exact(&mut body).unwrap();
        body
    }
}

/// One request on a connection of its own.
pub(crate) fn request(method: &str, url: &str, body: &[u8]) -> Answer {
    request_with(method, url, "", body)
}

/// The same with more headers, each with its line's end.
pub(crate) fn request_with(method: &str, url: &str, headers: &str, body: &[u8]) -> Answer {
    let mut connection = Connection::open(url);
    let length = format!("Content-Length: {}\r\nConnection: close\r\n{headers}", body.len());
    connection.send_head(method, url, &length);
    // An answer may come before the body is read.
    let _ = connection.send(body);
    connection.answer()
}

/// `host:port`, and path with query.
fn split(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("not a URL: {url}"));
    match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    }
}
