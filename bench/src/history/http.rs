//! As much of HTTP/1.1 as a client of a database needs: requests one after the other on a
//! connection that stays open.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use crate::Outcome;

/// Longer than any server takes to answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);

pub(super) struct Connection {
    reader: BufReader<TcpStream>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub status: u16,
    pub body: String,
}

impl Connection {
    pub fn open(port: u16) -> Outcome<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(Self {
            reader: BufReader::new(stream),
        })
    }

    pub fn get(&mut self, path: &str) -> Outcome<Answer> {
        self.request("GET", path, &[])
    }

    pub fn post(&mut self, path: &str, body: &[u8]) -> Outcome<Answer> {
        self.request("POST", path, body)
    }

    fn request(&mut self, verb: &str, path: &str, body: &[u8]) -> Outcome<Answer> {
        let head = format!(
            "{verb} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let stream = self.reader.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        answer(&mut self.reader)
    }
}

fn answer(reader: &mut impl BufRead) -> Outcome<Answer> {
    let status = line(reader)?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status: u16 = status.ok_or("the server did not answer in HTTP")?;
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let field = line(reader)?;
        if field.is_empty() {
            break;
        }
        let Some((name, value)) = field.split_once(':') else {
            continue;
        };
        match (name.to_ascii_lowercase().as_str(), value.trim()) {
            ("content-length", value) => length = value.parse()?,
            ("transfer-encoding", "chunked") => is_chunked = true,
            _ => {}
        }
    }
    let mut body = Vec::new();
    if is_chunked {
        loop {
            let size = u64::from_str_radix(&line(reader)?, 16)?;
            reader.by_ref().take(size).read_to_end(&mut body)?;
            line(reader)?;
            if size == 0 {
                break;
            }
        }
    } else {
        reader.by_ref().take(length).read_to_end(&mut body)?;
    }
    let body = String::from_utf8(body)?;
    Ok(Answer { status, body })
}

/// Reads a line, and returns it without its end.
fn line(reader: &mut impl BufRead) -> Outcome<String> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err("the server closed the connection".into());
    }
    Ok(line.trim_end().to_owned())
}

/// Returns text as a part of an address.
pub(super) fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_on_one_connection_are_read_one_after_the_other() {
        let mut text: &[u8] = b"HTTP/1.1 204 OK\r\nDate: x\r\n\r\n\
            HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n\
            HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\nno";
        let mut next = || {
            let answer = answer(&mut text).unwrap();
            (answer.status, answer.body)
        };
        assert_eq!(next(), (204, String::new()));
        assert_eq!(next(), (200, "abcde".to_owned()));
        assert_eq!(next(), (400, "no".to_owned()));
        assert_eq!(escaped("a b("), "a%20b%28");
    }
}
