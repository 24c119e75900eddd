use proptest::prelude::*;

use super::*;

fn range(text: &str) -> HostRange {
    text.parse()
        .unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn host(text: &str) -> Host {
    text.parse().unwrap()
}

/// Behaviour: H-18.
#[test]
fn range_contains_its_addresses_and_no_others() {
    for (text, inside, outside) in [
        (
            "10.0.0.7",
            &["10.0.0.7", "::ffff:10.0.0.7"][..],
            &["10.0.0.8", "::10.0.0.7", "local"][..],
        ),
        (
            "10.0.0.0/8",
            &["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"],
            &["9.255.255.255", "11.0.0.0", "a00::", "local"],
        ),
        (
            "192.168.4.128/25",
            &["192.168.4.128", "192.168.4.255"],
            &["192.168.4.127", "192.168.5.128"],
        ),
        (
            "0.0.0.0/0",
            &["0.0.0.0", "255.255.255.255", "127.0.0.1", "::ffff:1.2.3.4"],
            &["::", "2001:db8::1", "local"],
        ),
        (
            "::/0",
            &["::", "::1", "2001:db8::1"],
            &["10.0.0.7", "::ffff:10.0.0.7", "local"],
        ),
        (
            "fd00::/8",
            &["fd00::", "fdff::1"],
            &["fc00::1", "fe00::1", "253.0.0.0"],
        ),
        ("2001:db8::1", &["2001:db8::1"], &["2001:db8::2"]),
        (
            "::ffff:10.0.0.0/104",
            &["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"],
            &["11.0.0.0"],
        ),
        (
            "local",
            &[
                "local",
                "127.0.0.1",
                "127.255.0.9",
                "::1",
                "::ffff:127.0.0.1",
            ],
            &["10.0.0.7", "::2", "0.0.0.0"],
        ),
        // Only TCP from this address; a rule for the whole machine names `local`.
        ("127.0.0.1", &["127.0.0.1"], &["local", "::1", "127.0.0.2"]),
    ] {
        let sut = range(text);
        for one in inside {
            assert!(sut.contains(host(one)), "{text} contains {one}");
        }
        for one in outside {
            assert!(!sut.contains(host(one)), "{text} does not contain {one}");
        }
    }
}

#[test]
fn range_is_written_in_its_shortest_form() {
    for (text, expected) in [
        ("local", "local"),
        ("10.0.0.7/32", "10.0.0.7"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::ffff:0:0/96", "0.0.0.0/0"),
        ("FD00:0::/8", "fd00::/8"),
        ("2001:db8::1/128", "2001:db8::1"),
    ] {
        assert_eq!(range(text).to_string(), expected);
        assert_eq!(range(expected), range(text));
    }
    assert_eq!(host("::ffff:10.0.0.7").to_string(), "10.0.0.7");
    assert_eq!(host("local").to_string(), "local");
}

#[test]
fn every_mistake_has_its_sentence() {
    let not_an_address = "is neither an address nor a network: write one such as 10.0.0.7, \
        10.0.0.0/8 or fd00::/8, or local for this machine; names of machines are not looked up";
    let not_an_address = |text: &str| format!("{text:?} {not_an_address}");
    let prefix = |text: &str, prefix: &str, max: u8| {
        format!(
            "{prefix:?} in {text:?} is not a prefix length: write a number of bits from 0 to {max}"
        )
    };
    let host_bits = |text: &str, network: &str, address: &str| {
        format!(
            "{text:?} has bits after its prefix: write {network} for the network, or {address} for \
             the one address"
        )
    };
    for (text, expected) in [
        ("", not_an_address("")),
        ("plant7", not_an_address("plant7")),
        ("Local", not_an_address("Local")),
        ("10.0.0", not_an_address("10.0.0")),
        ("10.0.0.*", not_an_address("10.0.0.*")),
        ("010.0.0.1", not_an_address("010.0.0.1")),
        ("10.0.0.7:5850", not_an_address("10.0.0.7:5850")),
        ("[::1]", not_an_address("[::1]")),
        (" 10.0.0.7", not_an_address(" 10.0.0.7")),
        ("local/8", not_an_address("local/8")),
        ("10.0.0.0/33", prefix("10.0.0.0/33", "33", 32)),
        ("10.0.0.0/999", prefix("10.0.0.0/999", "999", 32)),
        ("10.0.0.0/", prefix("10.0.0.0/", "", 32)),
        ("10.0.0.0/+8", prefix("10.0.0.0/+8", "+8", 32)),
        ("10.0.0.0/08", prefix("10.0.0.0/08", "08", 32)),
        ("10.0.0.0/8/8", prefix("10.0.0.0/8/8", "8/8", 32)),
        (
            "10.0.0.0/255.0.0.0",
            prefix("10.0.0.0/255.0.0.0", "255.0.0.0", 32),
        ),
        ("fd00::/129", prefix("fd00::/129", "129", 128)),
        (
            "10.1.2.3/8",
            host_bits("10.1.2.3/8", "10.0.0.0/8", "10.1.2.3"),
        ),
        (
            "10.0.0.7/0",
            host_bits("10.0.0.7/0", "0.0.0.0/0", "10.0.0.7"),
        ),
        ("fd00::1/8", host_bits("fd00::1/8", "fd00::/8", "fd00::1")),
        (
            "::ffff:10.1.2.3/104",
            host_bits("::ffff:10.1.2.3/104", "10.0.0.0/8", "10.1.2.3"),
        ),
        (
            "::ffff:10.1.2.3/64",
            host_bits("::ffff:10.1.2.3/64", "::/64", "10.1.2.3"),
        ),
        (
            "fe80::1%eth0",
            "\"fe80::1%eth0\" has a zone after '%', which a rule cannot have: write the address \
             without it"
                .to_owned(),
        ),
    ] {
        let error = text.parse::<HostRange>().unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }
    let error = Network::new("10.0.0.0".parse().unwrap(), 40).unwrap_err();
    assert_eq!(error.to_string(), prefix("10.0.0.0/40", "40", 32));
    assert_eq!(
        "10.0.0.0/8".parse::<Host>().unwrap_err().to_string(),
        "\"10.0.0.0/8\" is not an address: write one such as 10.0.0.7 or fd00::7, or local for this \
         machine"
    );
    let long = "1".repeat(100_000).parse::<HostRange>().unwrap_err();
    assert!(long.to_string().len() < 400);
}

fn address() -> impl Strategy<Value = IpAddr> {
    let near = prop::sample::select(&[0u32, 1, 7, 0x7f00_0001, 0x0a00_0007, u32::MAX][..]);
    let v4 = prop_oneof![any::<u32>(), near].prop_map(std::net::Ipv4Addr::from);
    prop_oneof![
        v4.clone().prop_map(IpAddr::V4),
        v4.prop_map(|address| IpAddr::V6(address.to_ipv6_mapped())),
        any::<u128>().prop_map(|bits| IpAddr::V6(bits.into())),
        (0..70_000u128).prop_map(|bits| IpAddr::V6(bits.into())),
    ]
}

/// The bits of an address as text, in its canonical form.
fn binary(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => format!("4{:032b}", address.to_bits()),
        IpAddr::V6(address) => format!("6{:0128b}", address.to_bits()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn network_contains_exactly_the_addresses_with_its_prefix(
        first in address(), other in address(), prefix in 0..=128u8, share in 0..=128u32,
    ) {
        // `other` shares its first bits with `first` in half of the cases.
        let other = match (first, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let mask = u32::MAX.checked_shr(share).unwrap_or(0);
                IpAddr::V4(((a.to_bits() & !mask) | (b.to_bits() & mask)).into())
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let mask = u128::MAX.checked_shr(share).unwrap_or(0);
                IpAddr::V6(((a.to_bits() & !mask) | (b.to_bits() & mask)).into())
            }
            (_, other) => other,
        };
        let sut = match Network::new(first, prefix) {
            Ok(network) => network,
            Err(HostRangeError::HostBits { network, .. }) => network,
            Err(HostRangeError::Prefix { .. }) => {
                prop_assert!(first.is_ipv4() && prefix > 32);
                return Ok(());
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        prop_assert_eq!(sut.to_string().parse::<Network>(), Ok(sut));
        let expected = binary(sut.address());
        let kept = &expected[..1 + usize::from(sut.prefix())];
        prop_assert_eq!(sut.contains(other), binary(other).starts_with(kept));
        prop_assert!(expected[kept.len()..].bytes().all(|bit| bit == b'0'));
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "[0-9a-f:./%+l ]{0,24}|\\PC{0,40}") {
        if let Ok(sut) = text.parse::<HostRange>() {
            prop_assert_eq!(sut.to_string().parse(), Ok(sut));
        }
    }
}
