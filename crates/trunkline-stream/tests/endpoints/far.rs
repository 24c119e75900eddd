//! Ends of which one comes from another address than those of this machine alone, as from another
//! machine: their bytes carry checksums.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::mpsc::channel;
use std::thread;

use trunkline_stream::{Options, Reader, Writer};

use crate::proxy::{Fate, Proxy, Way};
use crate::rig::*;

/// S_DATA, and its flag that says that a checksum follows.
const DATA: u8 = 108;
const CHECKED: u8 = 4;

/// An address of this machine that others reach too, if it has one. Nothing is sent.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// A free port of it.
fn outer() -> Option<SocketAddr> {
    let address = outer_address()?;
    UdpSocket::bind((address, 0)).ok()?.local_addr().ok()
}

/// The writer is dialled, so that it learns from the connection where its reader is.
fn meet_over(at: SocketAddr, is_checked: Option<bool>) -> (Proxy, Writer<f64>, Reader<f64>) {
    let proxy = Proxy::to(at);
    let own = Options {
        insecure: true,
        is_checked,
        ..options(200)
    };
    let passive = url(at, "passive");
    let writer = thread::spawn(move || Writer::create(&passive, own).unwrap());
    let named = naming(&url(proxy.address(), "passive"), options(200));
    let reader = Reader::create(&fresh("active"), named).unwrap();
    (proxy, writer.join().unwrap(), reader)
}

/// Whether the bytes of the next elements carry a checksum.
fn is_checked(proxy: &Proxy, writer: &mut Writer<f64>, reader: &mut Reader<f64>) -> bool {
    let (sender, seen) = channel();
    proxy.hook(move |_, frame| {
        if frame[4] == DATA {
            // Of one the test knows enough.
            let _ = sender.send(frame[5] & CHECKED != 0);
        }
        Fate::Forward
    });
    writer.write_many(&elements(0..3), LONG).unwrap();
    check_run(&reader.read_many(3, LONG).unwrap(), 0);
    proxy.unhook();
    seen.recv_timeout(CUT_OFF).unwrap()
}

/// Behaviour: NS-02, NS-68.
#[test]
fn between_machines_an_altered_byte_is_noticed_and_sent_again() {
    let Some(at) = outer() else {
        eprintln!("this machine has no address that others reach: nothing is checked");
        return;
    };
    let (proxy, mut writer, mut reader) = meet_over(at, None);
    assert!(is_checked(&proxy, &mut writer, &mut reader));
    // Each byte of an element, and of those before and behind it.
    let mut next = 3;
    for byte in 0..24 {
        let (sender, altered) = channel();
        let mut is_done = false;
        proxy.hook(move |way, frame| {
            if way == Way::Back && frame[4] == DATA && !is_done {
                is_done = true;
                let elements = frame.len() - 24;
                frame[elements + byte] ^= 1 << (byte % 8);
                sender.send(()).unwrap();
            }
            Fate::Forward
        });
        let before = reader.properties().disconnections;
        writer.write_many(&elements(next..next + 3), LONG).unwrap();
        next = check_run(&reader.read_many(3, LONG).unwrap(), next);
        altered.recv_timeout(CUT_OFF).unwrap();
        assert!(reader.properties().disconnections > before);
    }
    proxy.unhook();
    assert_eq!(writer.close(LONG).elements, 0);
}

/// Behaviour: NS-02.
#[test]
fn whether_bytes_carry_checksums_is_as_the_program_says() {
    let near = address();
    for (at, said, expected) in [
        (Some(near), None, false),
        (Some(address()), Some(true), true),
        (outer(), Some(false), false),
    ] {
        let Some(at) = at else { continue };
        let (proxy, mut writer, mut reader) = meet_over(at, said);
        assert_eq!(
            is_checked(&proxy, &mut writer, &mut reader),
            expected,
            "{at} {said:?}"
        );
    }
}
