use proptest::prelude::*;

use super::{STREAM_URL_BYTES_MAX, StreamUrl, StreamUrlError};
use crate::url::UrlError;

fn parts(text: &str) -> (String, Option<u16>, String, Vec<String>) {
    let url = StreamUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let segments = url.segments().map(str::to_owned).collect();
    (
        url.host().to_owned(),
        url.port(),
        url.context().to_owned(),
        segments,
    )
}

/// Behaviour: NS-05, NS-07, NS-08.
#[test]
fn a_url_has_host_port_context_and_the_name_of_the_endpoint() {
    for (text, host, port, context, name) in [
        ("tl://plant7/wave", "plant7", None, "", "wave"),
        ("tl://plant7:5900/wave", "plant7", Some(5900), "", "wave"),
        ("tl://plant7:bench/wave", "plant7", None, "bench", "wave"),
        (
            "tl://plant7:5900:bench/wave",
            "plant7",
            Some(5900),
            "bench",
            "wave",
        ),
        (
            "tl://10.0.0.4:5900/wave",
            "10.0.0.4",
            Some(5900),
            "",
            "wave",
        ),
        (
            "tl://[::1]:5900:bench/wave",
            "::1",
            Some(5900),
            "bench",
            "wave",
        ),
        ("tl://[::1]/wave", "::1", None, "", "wave"),
        ("tl:///wave", "localhost", None, "", "wave"),
        ("tl://:5900/wave", "localhost", Some(5900), "", "wave"),
        ("tl://:bench/wave", "localhost", None, "bench", "wave"),
        ("tl://plant7:/wave", "plant7", None, "", "wave"),
        ("//plant7:bench/wave", "plant7", None, "bench", "wave"),
        ("wave", "localhost", None, "", "wave"),
        (
            "Subsystem A/stream 1",
            "localhost",
            None,
            "",
            "subsystem a|stream 1",
        ),
        (
            "tl://h/Subsystem A/stream 1",
            "h",
            None,
            "",
            "subsystem a|stream 1",
        ),
        ("tl://h:a 2/x", "h", None, "a 2", "x"),
        ("tl://h:%35900/x", "h", None, "5900", "x"),
        ("tl://h:a%3Ab/x", "h", None, "a:b", "x"),
        ("tl://h/a%2fb/c", "h", None, "", "a/b|c"),
        ("tl://h/100%25", "h", None, "", "100%"),
        ("tl://h/K%C3%BChlung", "h", None, "", "kühlung"),
        ("a:b/c", "localhost", None, "", "a:b|c"),
        ("a/b://c d", "localhost", None, "", ""),
    ] {
        if name.is_empty() {
            let refused = StreamUrl::parse(text).unwrap_err();
            assert_eq!(refused, StreamUrlError::EmptySegment);
            let text = "single slashes between its parts, and none at the start or end";
            assert!(refused.to_string().ends_with(text), "{refused}");
            continue;
        }
        let names = name.split('|').map(str::to_owned).collect();
        let expected = (host.to_owned(), port, context.to_owned(), names);
        assert_eq!(parts(text), expected, "{text}");
    }
}

#[test]
fn urls_are_not_case_sensitive() {
    let url = StreamUrl::parse("TL://Plant7:Bench/Subsystem Ä").unwrap();
    assert_eq!(
        url,
        StreamUrl::parse("tl://plant7:bench/subsystem ä").unwrap()
    );
    assert_eq!(url.to_string(), "tl://plant7:bench/subsystem ä");
}

#[test]
fn invalid_url_is_refused_with_a_reason() {
    for (text, words) in [
        ("", "does not name an endpoint"),
        ("tl://", "does not name an endpoint"),
        ("tl://plant7", "does not name an endpoint"),
        ("tl://plant7/", "does not name an endpoint"),
        ("tl://plant7//a", "is empty"),
        ("tl://plant7/a//b", "is empty"),
        ("a/", "is empty"),
        ("http://plant7/a", "unknown URL scheme"),
        ("tl://user@plant7/a", "cannot contain a user"),
        ("tl://plant 7/a", "is not a host"),
        ("tl://[::1/a", "is not a host"),
        ("tl://::1/a", "more parts than host"),
        ("tl://h:0/a", "is not a port"),
        ("tl://h:65536/a", "is not a port"),
        ("tl://h:99999999999999999999/a", "is not a port"),
        ("tl://h:1:2/a", "more parts than host"),
        ("tl://h:ctx:5900/a", "more parts than host"),
        ("tl://h:1:a:b/a", "more parts than host"),
        ("tl://h:1:a:b:c/a", "more parts than host"),
        ("tl://h/%", "an invalid escape"),
        ("tl://h/%2", "an invalid escape"),
        ("tl://h/%zz", "an invalid escape"),
        ("tl://h/%+1", "an invalid escape"),
        ("tl://h/%ff", "an invalid escape"),
        ("tl://h/a%00", "U+0000 is not printable"),
        ("tl://h/a\u{202e}b", "U+202E is not printable"),
        ("tl://h:a\nb/c", "U+000A is not printable"),
    ] {
        match StreamUrl::parse(text) {
            Ok(url) => panic!("{text:?} is {url}"),
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains(words), "{text:?}: {said}");
            }
        }
    }
    let long = format!("tl://h/{}", "a".repeat(STREAM_URL_BYTES_MAX));
    assert!(matches!(
        StreamUrl::parse(&long),
        Err(StreamUrlError::TooLong { .. })
    ));
}

#[test]
fn names_are_nested_part_by_part() {
    let url = |text: &str| StreamUrl::parse(text).unwrap();
    for (one, other, expected) in [
        ("a", "a/b", true),
        ("A/b/c", "a/B", true),
        ("a", "ab", false),
        ("a/b", "a/c", false),
        ("a", "a", false),
        ("tl://h:x/a", "tl://h:y/a/b", false),
        ("tl://h/a", "tl://i/a/b", false),
        ("tl://h:1/a", "tl://h/a/b", false),
    ] {
        assert_eq!(
            url(one).is_nested_with(&url(other)),
            expected,
            "{one}, {other}"
        );
        assert_eq!(
            url(other).is_nested_with(&url(one)),
            expected,
            "{other}, {one}"
        );
    }
}

#[test]
fn endpoint_with_the_lesser_host_context_and_name_dials() {
    let order = [
        "tl://a/z",
        "tl://b:5/y/b",
        "tl://b/y/c",
        "tl://b:c/a",
        "tl://c/a",
    ];
    for pair in order.windows(2) {
        let [one, other] = [pair[0], pair[1]].map(|text| StreamUrl::parse(text).unwrap());
        assert!(one < other, "{one} {other}");
    }
}

#[test]
fn localhost_can_be_replaced_with_another_host() {
    let url = StreamUrl::parse("bench/wave").unwrap();
    assert_eq!(
        url.at_host("Plant7").unwrap().to_string(),
        "tl://plant7/bench/wave"
    );
    assert_eq!(
        url.at_host("::1").unwrap().to_string(),
        "tl://[::1]/bench/wave"
    );
    for host in ["", "a b", "a:1", "a/b"] {
        let error = url.at_host(host).unwrap_err();
        assert!(
            matches!(error, StreamUrlError::Url(UrlError::Host { .. })),
            "{host}"
        );
    }
}

proptest! {
    #[test]
    fn canonical_form_is_parsed_to_an_equal_url(text in "(tl://)?[aB1:/%2Fé.ßİ ]{0,20}") {
        if let Ok(url) = StreamUrl::parse(&text) {
            let canonical = url.to_string();
            let again = StreamUrl::parse(&canonical);
            prop_assert_eq!(again.as_ref(), Ok(&url), "{}", canonical);
            prop_assert_eq!(again.unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        if let Ok(url) = StreamUrl::parse(&text) {
            prop_assert_eq!(StreamUrl::parse(&url.to_string()), Ok(url));
        }
    }
}
