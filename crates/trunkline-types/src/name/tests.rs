use proptest::prelude::*;

use super::{
    NAME_BYTES_MAX, Name, NameError, check_segment, escape_segment, register_number, suggest,
    unescape_segment,
};

fn parse(text: &str) -> Name {
    Name::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn a_name_has_a_library_a_path_and_perhaps_a_field() {
    let name = parse("rack1/ai/Tank 3 level#alarm.hi.limit");
    assert_eq!(name.library(), "rack1");
    assert_eq!(name.path(), "ai/Tank 3 level");
    assert_eq!(name.field(), Some("alarm.hi.limit"));
    assert_eq!(name.without_field(), "rack1/ai/Tank 3 level");
    assert_eq!(
        name.segments().collect::<Vec<_>>(),
        ["rack1", "ai", "Tank 3 level"]
    );
    let plain = parse("boiler/level");
    assert_eq!(
        (plain.field(), plain.without_field()),
        (None, "boiler/level")
    );
    assert_eq!(plain, "boiler/level".parse().unwrap());
    assert_eq!(
        (plain.to_string(), format!("{plain:?}")),
        ("boiler/level".into(), "\"boiler/level\"".into())
    );
}

#[test]
fn names_of_other_systems_are_valid_unchanged() {
    for text in [
        "SR/SR:C01:BPM1:X",
        "SR:C01-MG:G02A{Quad:H1}/Fld:SP",
        "IOC/$(P)record.VAL",
        "kepware/Channel1.Device1.Tag1",
        "kepware/Channel1.Device1.Group._System._Error",
        "opc/ns=2;s=Channel1.Device1.Tag1",
        "opc/ns=3;g=09087e75-8e5e-499b-954f-f2a9603db28a",
        "opc/ns=1;b=M/RbKBsRVkePCePcx24oRA==",
        "My Project/My Library/Variable 1 (raw)",
        "cDAQ1/Mod1/ai0",
        "lib/[Dev1]ai0:3",
        "lib/\"quoted\" & <tagged>, \\ backslash",
        "lib/C:\\temp",
        "lib/?query=1&x=2",
        "lib/50 %25",
        "lib/°C µm Ω",
        "Kessel/Füllstand",
        "锅炉/液位",
        "मोटर/गति",
        "lib/🔬",
        "lib/ leading and trailing ",
        "lib/.",
        "lib/-",
    ] {
        assert_eq!(parse(text).as_str(), text);
    }
}

/// The rules of names: reserved characters are escaped, `/` as %2F, and names are case-sensitive.
///
/// Behaviour: DP-15.
#[test]
fn reserved_characters_are_escaped_and_case_counts() {
    let name = parse("opc/Objects%2FBoiler %231 100%25 %2A");
    assert_eq!(
        name.segments().nth(1).map(unescape_segment).unwrap(),
        "Objects/Boiler #1 100% *"
    );
    assert_eq!(
        escape_segment("Objects/Boiler #1 100% *"),
        "Objects%2FBoiler %231 100%25 %2A"
    );
    assert_ne!(parse("boiler/Level"), parse("boiler/level"));
    let names = ["boiler/Level", "boiler/lever"];
    assert_eq!(
        suggest("boiler/level", names.into_iter()),
        Some("boiler/Level".to_owned())
    );
}

#[test]
fn escapes_have_one_spelling() {
    assert_eq!(parse("lib/a%2fb%2a").as_str(), "lib/a%2Fb%2A");
    assert_eq!(parse("lib/a%2fb"), parse("lib/a%2Fb"));
    assert_eq!(parse("%2f/é%2f").as_str(), "%2F/é%2F");
    for text in [
        "lib/%",
        "lib/%2",
        "lib/100%",
        "lib/%20",
        "lib/%2E%2E",
        "lib/%%",
        "lib/%é",
        "lib/%2é",
    ] {
        assert!(
            matches!(Name::parse(text), Err(NameError::Escape { .. })),
            "{text}"
        );
    }
}

#[test]
fn names_that_look_like_paths_are_only_names() {
    for text in [
        "lib/..",
        "../etc",
        "lib/../../etc/passwd",
        "lib/.%2F..",
        "./lib",
        "~/lib",
    ] {
        let name = parse(text);
        assert_eq!(name.as_str(), text);
        assert_eq!(name.segments().count(), text.split('/').count());
    }
    assert_ne!(parse("lib/a/../b"), parse("lib/b"));
    assert!(Name::parse("/etc/passwd").is_err());
}

#[test]
fn errors_are_reported() {
    for (text, sentence) in [
        ("", "the name is empty: write library/path"),
        (
            "SR:C01:BPM1:X",
            "\"SR:C01:BPM1:X\" is not a full name: write library/path",
        ),
        (
            "lib#units",
            "\"lib#units\" is not a full name: write library/path",
        ),
        (
            "/x",
            "empty segment at byte 0: use single slashes between segments and none at the start or end",
        ),
        (
            "lib//x",
            "empty segment at byte 4: use single slashes between segments and none at the start or end",
        ),
        (
            "lib/",
            "empty segment at byte 4: use single slashes between segments and none at the start or end",
        ),
        (
            "lib/#f",
            "empty segment at byte 4: use single slashes between segments and none at the start or end",
        ),
        (
            "lib/a#",
            "the field after '#' is empty: write %23 for the character itself",
        ),
        (
            "lib/a#b#c",
            "'#' at byte 7 is not allowed in a field: write %23 for the character itself",
        ),
        (
            "lib/a#b/c",
            "'/' at byte 7 is not allowed in a field: write %2F for the character itself",
        ),
        (
            "lib/é*",
            "'*' at byte 6 is a wildcard, which a name cannot have: write %2A for a star",
        ),
        (
            "lib/a%b",
            "'%' at byte 5 does not begin %2F, %23, %25 or %2A: write %25 for a percent sign, and other characters as they are",
        ),
        (
            "lib/a\nb",
            "the character U+000A at byte 5 is not printable",
        ),
        (
            "lib/\u{202e}x",
            "the character U+202E at byte 4 is not printable",
        ),
    ] {
        assert_eq!(Name::parse(text).unwrap_err().to_string(), sentence);
    }
}

#[test]
fn invisible_characters_are_refused() {
    for character in [
        '\0',
        '\t',
        '\r',
        '\n',
        '\x1b',
        '\x7f',
        '\u{85}',
        '\u{200b}',
        '\u{200d}',
        '\u{2028}',
        '\u{2066}',
        '\u{feff}',
        '\u{e0041}',
    ] {
        let text = format!("lib/a{character}b");
        assert_eq!(
            Name::parse(&text),
            Err(NameError::Unprintable {
                position: 5,
                character
            })
        );
    }
}

#[test]
fn name_longer_than_the_limit_is_refused() {
    let longest = format!("lib/{}", "x".repeat(NAME_BYTES_MAX - 4));
    assert_eq!(parse(&longest).as_str(), longest);
    for bytes in [NAME_BYTES_MAX + 1, 64 << 10, 16 << 20] {
        let error = Name::parse(&format!("lib/{}", "x".repeat(bytes - 4))).unwrap_err();
        assert_eq!(error, NameError::TooLong { bytes, max: 1024 });
        assert!(error.to_string().len() < 100);
    }
    let deep = "a/".repeat(511) + "b";
    assert_eq!(parse(&deep).segments().count(), 512);
}

#[test]
fn joining_checks_that_the_library_is_one_segment() {
    assert_eq!(
        Name::join("boiler", "pump/mode").unwrap().as_str(),
        "boiler/pump/mode"
    );
    assert_eq!(
        Name::join("a/b", "c"),
        Err(NameError::NotOneSegment {
            position: 1,
            character: '/',
            escape: "%2F"
        })
    );
    assert!(Name::join("a#b", "c").is_err());
    assert!(Name::join("", "c").is_err());
    assert!(Name::join("a", "").is_err());
    assert_eq!(check_segment("Tank 3"), Ok(()));
    assert_eq!(
        check_segment("a*"),
        Err(NameError::Wildcard { position: 1 })
    );
}

#[test]
fn near_misses_are_suggested() {
    let names = [
        "boiler/level",
        "boiler/lever",
        "boiler/temperature",
        "pump/on",
    ];
    let suggested = |name| suggest(name, names.into_iter());
    assert_eq!(suggested("boiler/levle"), Some("boiler/level".to_owned()));
    assert_eq!(suggested("Boiler/Lever"), Some("boiler/lever".to_owned()));
    assert_eq!(
        suggested("boiler/temprature"),
        Some("boiler/temperature".to_owned())
    );
    assert_eq!(suggested("pump/of"), Some("pump/on".to_owned()));
    assert_eq!(suggested("turbine/speed"), None);
    assert_eq!(suggested(""), None);
    assert_eq!(suggested("boiler/level"), Some("boiler/lever".to_owned()));
    let long = "x".repeat(1000);
    let other = "X".repeat(1000);
    assert_eq!(
        suggest(&long, [other.as_str()].into_iter()),
        Some(other.clone())
    );
    assert_eq!(suggest(&long, ["y"].into_iter()), None);
}

proptest! {
    #[test]
    fn any_text_round_trips_through_a_segment(text in "\\PC{1,40}") {
        let escaped = escape_segment(&text);
        prop_assert!(!escaped.contains(['/', '#', '*']));
        prop_assert_eq!(unescape_segment(&escaped), text.as_str());
        if let Ok(name) = Name::join(&escaped, &escaped) {
            prop_assert_eq!(name.library(), &*escaped);
            prop_assert_eq!(name.path(), &*escaped);
        }
    }

    #[test]
    fn canonical_form_is_parsed_to_itself(text in "[ab/#%*2FfAa]{0,12}") {
        if let Ok(name) = Name::parse(&text) {
            prop_assert_eq!(Name::parse(name.as_str()), Ok(name.clone()));
            prop_assert!(name.as_str().eq_ignore_ascii_case(&text));
            let rebuilt = Name::join(name.library(), name.path()).unwrap();
            prop_assert_eq!(rebuilt.as_str(), name.without_field());
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = Name::parse(&text);
        let _ = check_segment(&text);
        let _ = unescape_segment(&text);
    }
}

#[test]
fn register_numbers_have_one_form() {
    for (name, number) in [(":/0", 0), (":/20", 20), (":/4294967295", u32::MAX)] {
        assert_eq!(register_number(name), Some(number));
        assert!(
            Name::parse(name).is_ok(),
            "a register number is a valid name"
        );
    }
    for other in [
        "",
        ":",
        ":/",
        ":/020",
        ":/00",
        ":/+1",
        ":/-1",
        ":/1 ",
        ":/4294967296",
        ":/1/2",
    ] {
        assert_eq!(register_number(other), None, "{other}");
    }
    assert_eq!(register_number("log/20"), None);
}
