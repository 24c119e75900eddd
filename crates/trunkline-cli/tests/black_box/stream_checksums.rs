//! `stream write --checksums`: bytes that a network alters on their way.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::rig::finish;
use crate::streams::{endpoint, reader, writer};

/// A network between the two ends that flips one bit of an element, once.
fn flipping(to: &str, element: u64) -> String {
    let port = to.rsplit(':').next().unwrap().split('/').next().unwrap();
    let reader: u16 = port.parse().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = to.replace(port, &listener.local_addr().unwrap().port().to_string());
    let is_flipped = Arc::new(Mutex::new(false));
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            // The reader may not listen yet: then the writer dials again.
            let Ok(far) = TcpStream::connect(("127.0.0.1", reader)) else {
                continue;
            };
            let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
            std::thread::spawn(move || carry(back, |_| {}));
            let is_flipped = Arc::clone(&is_flipped);
            let flip = move |bytes: &mut [u8]| {
                let wanted = element.to_le_bytes();
                let found = bytes.windows(8).position(|window| window == wanted);
                if let Some(at) = found
                    && !std::mem::replace(&mut *is_flipped.lock().unwrap(), true)
                {
                    bytes[at] ^= 1;
                }
            };
            std::thread::spawn(move || carry((near, far), flip));
        }
    });
    url
}

/// Carries bytes from one connection to another until either ends.
fn carry((mut from, mut to): (TcpStream, TcpStream), change: impl Fn(&mut [u8])) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        change(&mut buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn altered_byte_on_one_machine_is_resent_with_checksums() {
    const ELEMENT: u64 = 0x1122_3344_5566_7788;
    for (checksums, expected) in [(&["--checksums"][..], ELEMENT), (&[], ELEMENT ^ 1)] {
        let url = endpoint("through");
        let reader = reader(&url, &["--type", "u64"]);
        let through = flipping(&url, ELEMENT);
        let arguments = [&["--type", "u64"], checksums].concat();
        let written = finish(
            &mut writer(&through, &arguments),
            &format!("1\n{ELEMENT}\n2\n"),
        );
        assert_eq!(written.code, Some(0), "{written:?}");
        let (code, lines) = reader.end();
        assert_eq!(code, Some(0));
        assert_eq!(
            lines,
            ["1".to_owned(), expected.to_string(), "2".to_owned()]
        );
    }
}
