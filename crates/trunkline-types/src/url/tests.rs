use proptest::prelude::*;

use super::{DEFAULT_PORT, Transport, Url, UrlError};
use crate::name::{Name, NameError, escape_segment};

fn url(host: Option<&str>, port: Option<u16>, name: Option<&str>) -> Url {
    Url {
        via: Transport::Best,
        host: host.map(str::to_owned),
        port,
        name: name.map(str::to_owned),
    }
}

#[test]
fn urls_have_a_host_a_port_and_a_name_or_none_of_them() {
    for (text, expected) in [
        (
            "tl://plant7:5851/boiler/level#units",
            url(Some("plant7"), Some(5851), Some("boiler/level#units")),
        ),
        (
            "tl://plant7/boiler/level",
            url(Some("plant7"), None, Some("boiler/level")),
        ),
        ("tl://plant7", url(Some("plant7"), None, None)),
        ("tl://plant7/", url(Some("plant7"), None, None)),
        (
            "tl://10.0.0.4:6000",
            url(Some("10.0.0.4"), Some(6000), None),
        ),
        (
            "tl://[::1]:5850/a/b",
            url(Some("::1"), Some(5850), Some("a/b")),
        ),
        (
            "tl://[FE80::1%eth0]/a/b",
            url(Some("fe80::1%eth0"), None, Some("a/b")),
        ),
        (
            "tl://[fe80::1%Eth0]/a/b",
            url(Some("fe80::1%Eth0"), None, Some("a/b")),
        ),
        (
            "tl://plant.example.com./a/b",
            url(Some("plant.example.com."), None, Some("a/b")),
        ),
        ("tl:///boiler/level", url(None, None, Some("boiler/level"))),
        ("tl://", url(None, None, None)),
        ("tl://:6000/a/b", url(None, Some(6000), Some("a/b"))),
        ("boiler/level", url(None, None, Some("boiler/level"))),
        ("boiler/**", url(None, None, Some("boiler/**"))),
        ("boiler", url(None, None, Some("boiler"))),
        (
            "opc/ns=2;s=Channel1.Device1.Tag1",
            url(None, None, Some("opc/ns=2;s=Channel1.Device1.Tag1")),
        ),
        (
            "SR/SR:C01:BPM1:X",
            url(None, None, Some("SR/SR:C01:BPM1:X")),
        ),
        ("SR:C01//x", url(None, None, None)),
    ] {
        match Url::parse(text) {
            Ok(parsed) => assert_eq!(parsed, expected, "{text}"),
            Err(error) => assert_eq!(text, "SR:C01//x", "{error}"),
        }
    }
}

/// Behaviour: DP-15.
#[test]
fn the_engine_part_is_optional_and_not_case_sensitive() {
    let url = Url::parse("TL://Plant7/Boiler/Level%2fRaw").unwrap();
    assert_eq!(url, Url::parse("tl://PLANT7/Boiler/Level%2FRaw").unwrap());
    assert_eq!(url.host.as_deref(), Some("plant7"));
    // Variables keep their case; escapes are normalised.
    assert_eq!(url.name.as_deref(), Some("Boiler/Level%2FRaw"));
    assert_eq!(Url::parse("tl:///a/b"), Url::parse("a/b"));
}

/// The part of API-01 that this crate covers: a URL can be built at run time from any text.
///
/// Behaviour: API-01.
#[test]
fn a_url_is_built_at_run_time() {
    for device in ["Pump 3", "50 % open?", "a/b#c*d", "ns=2;s=Tag"] {
        let segment = escape_segment(device);
        let name = Name::join("plant", &format!("{segment}/speed")).unwrap();
        let built = Url::at("Plant7.Example.com", Some(6000), &name).unwrap();
        assert_eq!(
            built.to_string(),
            format!("tl://plant7.example.com:6000/plant/{segment}/speed")
        );
        assert_eq!(Url::parse(&built.to_string()), Ok(built));
        assert_eq!(Url::parse(name.as_str()), Ok(Url::of(&name)));
    }
    let name = Name::parse("a/b").unwrap();
    assert_eq!(
        Url::at("::1", None, &name).unwrap().to_string(),
        "tl://[::1]/a/b"
    );
    assert_eq!(Url::at("[::1]", None, &name), Url::at("::1", None, &name));
    assert!(Url::at("two words", None, &name).is_err());
    assert!(Url::at("", None, &name).is_err());
}

#[test]
fn the_port_has_a_default() {
    assert_eq!(
        Url::parse("tl://x").unwrap().port_or_default(),
        DEFAULT_PORT
    );
    assert_eq!(Url::parse("tl://x:1").unwrap().port_or_default(), 1);
}

#[test]
fn errors_are_reported() {
    for (text, sentence) in [
        (
            "",
            "the URL is empty: write tl://host/library/path or library/path",
        ),
        (
            "http://plant7/a/b",
            "unknown URL scheme \"http\"; use tl://HOST, tl://HOST:PORT or tl://HOST/LIBRARY/PATH",
        ),
        (
            "opc.tcp://x:4840",
            "unknown URL scheme \"opc.tcp\"; use tl://HOST, tl://HOST:PORT or tl://HOST/LIBRARY/PATH",
        ),
        (
            "tl:/a/b",
            "unknown URL scheme \"tl:\"; use tl://HOST, tl://HOST:PORT or tl://HOST/LIBRARY/PATH",
        ),
        (
            "tl://me:secret@plant7/a/b",
            "a URL cannot contain a user or a password: leave out the part before '@'",
        ),
        (
            "tl://a b/c/d",
            "\"a b\" is not a host: write a name, an IPv4 address, or an IPv6 address in brackets",
        ),
        (
            "tl://::1/a/b",
            "\"::1\" is not a host: write a name, an IPv4 address, or an IPv6 address in brackets",
        ),
        (
            "tl://x:0/a",
            "\"0\" is not a port: write a number from 1 to 65535",
        ),
        (
            "tl://x:/a",
            "\"\" is not a port: write a number from 1 to 65535",
        ),
        (
            "tl://x:65536/a",
            "\"65536\" is not a port: write a number from 1 to 65535",
        ),
        (
            "tl://x:+1/a",
            "\"+1\" is not a port: write a number from 1 to 65535",
        ),
        (
            "tl://x/a/%20",
            "'%' at byte 2 does not begin %2F, %23, %25 or %2A: write %25 for a percent sign, and other characters as they are",
        ),
    ] {
        let error = Url::parse(text).map(|url| url.to_string()).unwrap_err();
        assert_eq!(error.to_string(), sentence, "{text}");
    }
}

#[test]
fn invalid_host_is_refused() {
    for host in [
        "..",
        ".",
        "a..b",
        ".a",
        "[",
        "[]",
        "[::1",
        "[::1]x",
        "[1.2.3.4]",
        "[::1%]",
        "[::1%a/b]",
        "[::g]",
        "a%2Fb",
        "a\\b",
        "pläne",
        "a\tb",
        "x?y",
        &"x".repeat(254),
    ] {
        let text = format!("tl://{host}");
        assert!(
            matches!(Url::parse(&text), Err(UrlError::Host { .. })),
            "{text}"
        );
    }
}

#[test]
fn error_for_a_long_url_is_short() {
    for text in [
        "tl://x/".to_owned() + &"a".repeat(64 << 10),
        "b".repeat(64 << 10),
    ] {
        let error = Url::parse(&text).unwrap_err();
        assert!(matches!(error, UrlError::Name(NameError::TooLong { .. })));
    }
    let host = format!("tl://{}/a/b", "h".repeat(64 << 10));
    assert!(Url::parse(&host).unwrap_err().to_string().len() < 400);
    let scheme = format!("{}://a/b", "h".repeat(64 << 10));
    assert!(Url::parse(&scheme).unwrap_err().to_string().len() < 400);
}

#[test]
fn names_in_urls_are_not_resolved_like_paths() {
    let url = Url::parse("tl://x/../../etc/passwd").unwrap();
    assert_eq!(url.name.as_deref(), Some("../../etc/passwd"));
}

proptest! {
    #[test]
    fn urls_round_trip(
        host in prop::option::of("[a-z][a-z0-9.-]{0,8}[a-z]|10\\.0\\.0\\.[1-9]|fe80::[1-9]"),
        port in prop::option::of(1_u16..),
        name in prop::option::of("[a-z ]{1,5}(/[a-z*:=;]{1,5}){0,3}(#[a-z.]{1,5})?"),
    ) {
        prop_assume!(!host.as_ref().is_some_and(|host| host.contains("..")));
        let url = Url {
            via: Transport::Best,
            host,
            port,
            name,
        };
        prop_assert_eq!(Url::parse(&url.to_string()), Ok(url));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>(), tail in "\\PC{0,30}") {
        let _ = Url::parse(&text);
        if let Ok(url) = Url::parse(&format!("tl://{tail}")) {
            prop_assert_eq!(Url::parse(&url.to_string()), Ok(url));
        }
    }
}

#[test]
fn url_may_name_the_transport() {
    let socket = |path: &str, name: Option<&str>| Url {
        via: Transport::Unix(path.parse().unwrap()),
        name: name.map(str::to_owned),
        ..Url::default()
    };
    for (text, expected) in [
        (
            "tl+unix:///run/user/1000/trunkline/5850.sock",
            socket("/run/user/1000/trunkline/5850.sock", None),
        ),
        (
            "tl+unix:///run/plant.sock/boiler/level#units",
            socket("/run/plant.sock", Some("boiler/level#units")),
        ),
        (
            "tl+unix:///run/plant.sock/sockets/b.sock",
            socket("/run/plant.sock", Some("sockets/b.sock")),
        ),
        (
            "tl+shm:///run/plant.sock/boiler/level#units",
            Url {
                via: Transport::Shared("/run/plant.sock".parse().unwrap()),
                ..socket("/run/plant.sock", Some("boiler/level#units"))
            },
        ),
        (
            "tl+tcp://localhost:6000/a/b",
            Url {
                via: Transport::Tcp,
                ..url(Some("localhost"), Some(6000), Some("a/b"))
            },
        ),
    ] {
        let parsed = Url::parse(text).unwrap();
        assert_eq!(parsed, expected, "{text}");
        assert_eq!(parsed.to_string(), text);
        assert!(parsed.has_engine());
    }
    assert_eq!(
        Url::parse("tl+unix:///run/plant.sock/").unwrap(),
        socket("/run/plant.sock", None)
    );
    for (text, expected) in [
        ("tl+unix://plant7/a.sock", "not an absolute path"),
        ("tl+unix:///run/plant/boiler/level", "does not end in .sock"),
        ("tl+unix:///run/plant.sock/a//b", "empty"),
        ("tl+ws://plant7", "unknown URL scheme"),
        ("tl+unix:/run/plant.sock", "unknown URL scheme"),
    ] {
        let error = Url::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
