//! Tests endpoints that are connected over a non-loopback address, as between machines. Their data
//! carries checksums.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::mpsc::channel;
use std::thread;

use trunkline_stream::{Options, Reader, Writer};

use crate::proxy::{Direction, FrameAction, Proxy};
use crate::rig::*;

/// The kind S_DATA, and its flag for a checksum.
const DATA: u8 = 108;
const CHECKED: u8 = 4;

/// Returns a non-loopback address of this machine, if it has one. This sends no packet.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// Returns a free port on that address.
fn outer() -> Option<SocketAddr> {
    let address = outer_address()?;
    UdpSocket::bind((address, 0)).ok()?.local_addr().ok()
}

/// The reader dials, so the writer learns the reader's address from the connection.
fn connect_over(
    address: SocketAddr,
    is_checked: Option<bool>,
) -> (Proxy, Writer<f64>, Reader<f64>) {
    let proxy = Proxy::to(address);
    let own = Options {
        insecure: true,
        is_checked,
        ..options(200)
    };
    let passive = url(address, "passive");
    let writer = thread::spawn(move || Writer::create(&passive, own).unwrap());
    let named = naming(&url(proxy.address(), "passive"), options(200));
    let reader = Reader::create(&unique_url("active"), named).unwrap();
    (proxy, writer.join().unwrap(), reader)
}

/// Returns true if the bytes of the next elements carry a checksum.
fn is_checked(proxy: &Proxy, writer: &mut Writer<f64>, reader: &mut Reader<f64>) -> bool {
    let (sender, seen) = channel();
    proxy.hook(move |_, frame| {
        if frame[4] == DATA {
            // The first frame is enough, so later sends may fail.
            let _ = sender.send(frame[5] & CHECKED != 0);
        }
        FrameAction::Forward
    });
    writer.write_many(&elements(0..3), LONG).unwrap();
    check_run(&reader.read_many(3, LONG).unwrap(), 0);
    proxy.unhook();
    seen.recv_timeout(TEST_TIMEOUT).unwrap()
}

/// Behaviour: NS-02, NS-68.
#[test]
fn altered_bytes_between_machines_are_detected_and_resent() {
    let Some(address) = outer() else {
        eprintln!("skipped: this machine has no non-loopback address");
        return;
    };
    let (proxy, mut writer, mut reader) = connect_over(address, None);
    assert!(is_checked(&proxy, &mut writer, &mut reader));
    // Alters each byte of an element, and of the elements before and after it.
    let mut next = 3;
    for byte in 0..24 {
        let (sender, altered) = channel();
        let mut is_done = false;
        proxy.hook(move |direction, frame| {
            if direction == Direction::Back && frame[4] == DATA && !is_done {
                is_done = true;
                let elements = frame.len() - 24;
                frame[elements + byte] ^= 1 << (byte % 8);
                sender.send(()).unwrap();
            }
            FrameAction::Forward
        });
        let before = reader.properties().disconnections;
        writer.write_many(&elements(next..next + 3), LONG).unwrap();
        next = check_run(&reader.read_many(3, LONG).unwrap(), next);
        altered.recv_timeout(TEST_TIMEOUT).unwrap();
        assert!(reader.properties().disconnections > before);
    }
    proxy.unhook();
    assert_eq!(writer.close(LONG).elements, 0);
}

/// Behaviour: NS-02.
#[test]
fn checksum_option_overrides_the_default() {
    let near = address();
    for (address, option, expected) in [
        (Some(near), None, false),
        (Some(address()), Some(true), true),
        (outer(), Some(false), false),
    ] {
        let Some(address) = address else { continue };
        let (proxy, mut writer, mut reader) = connect_over(address, option);
        assert_eq!(
            is_checked(&proxy, &mut writer, &mut reader),
            expected,
            "{address} {option:?}"
        );
    }
}
