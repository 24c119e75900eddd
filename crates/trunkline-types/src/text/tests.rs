use std::sync::Arc;

use proptest::prelude::*;

use super::{
    Digits, FormatOptions, format_rfc3339, format_value, format_wide, is_unprintable,
    parse_rfc3339, parse_type, parse_value,
};
use crate::arbitrary::{bits, data_type, normal, typed_scalar, typed_value};
use crate::{Array, DataType, Elements, Timestamp, Value};

fn ty(text: &str) -> DataType {
    parse_type(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn parse(text: &str, name: &str) -> Value {
    parse_value(text, &ty(name)).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str, name: &str) -> String {
    parse_value(text, &ty(name)).unwrap_err().to_string()
}

fn plain(value: &Value, ty: &DataType) -> String {
    format_value(value, ty, &FormatOptions::default())
}

mod types {
    use super::*;

    #[test]
    fn types_are_parsed_from_their_display_form() {
        for text in [
            "f64",
            "timestamp",
            "enum(OFF, MANUAL, AUTO)",
            "enum(\"a, b\", \"\", \" c\", \"(\", d e)",
            "array(f64, 3, *)",
            "array(string, *)",
            "struct(x: f64, ok: bool, pos: struct(a: array(u8, 2, 2), \"b:c\": waveform(i16)))",
            "waveform(timestamp)",
        ] {
            assert_eq!(ty(text).to_string(), text);
        }
        assert_eq!(ty("  array( f64 ,3 , * )  "), ty("array(f64, 3, *)"));
        assert_eq!(
            ty("struct(x:f64,y:f64)").to_string(),
            "struct(x: f64, y: f64)"
        );
        assert_eq!(
            ty("enum( OFF ,AUTO mode)").to_string(),
            "enum(OFF, AUTO mode)"
        );
    }

    #[test]
    fn errors_are_reported() {
        for (text, sentence) in [
            ("", "at byte 0: expected a type such as f64"),
            ("double", "\"double\" is not a type; did you mean f64?"),
            ("F64", "\"F64\" is not a type; did you mean f64?"),
            ("boool", "\"boool\" is not a type; did you mean bool?"),
            (
                "array(float, *)",
                "\"float\" is not a type; did you mean f32?",
            ),
            (
                "quaternion",
                "\"quaternion\" is not a type; write one of bool, i8 to i64, u8 to u64, f32, f64, \
              string, bytes, timestamp, enum(...), array(...), struct(...), waveform(...)",
            ),
            ("f64 f64", "at byte 3: expected the end of the type"),
            ("enum", "at byte 4: expected '(' and the labels"),
            (
                "enum()",
                "at byte 5: expected a name; write \"\" for an empty name",
            ),
            (
                "enum(A,)",
                "at byte 7: expected a name; write \"\" for an empty name",
            ),
            ("enum(A, A)", "the label \"A\" appears twice in one enum"),
            ("enum(\"A)", "at byte 5: expected a string in JSON quotes"),
            ("enum(A", "at byte 6: expected ',' or ')'"),
            ("array(f64)", "an array has 1 to 8 dimensions, not 0"),
            (
                "array(f64, 1,1,1,1,1,1,1,1,1)",
                "an array has 1 to 8 dimensions, not 9",
            ),
            (
                "array(f64, -1)",
                "at byte 11: expected a length from 0 to 4294967295, or * for any",
            ),
            (
                "array(f64, 4294967296)",
                "at byte 11: expected a length from 0 to 4294967295, or * for any",
            ),
            (
                "array(f64, 9999999)",
                "the fixed lengths make values of 79999992 bytes; 16777216 is the limit",
            ),
            (
                "array(bytes, 3)",
                "at byte 11: expected an element type; arrays of bytes do not exist",
            ),
            (
                "struct(x f64)",
                "at byte 12: expected ':' and the field's type",
            ),
            (
                "struct(x: f64, x: f64)",
                "the field \"x\" appears twice in one struct",
            ),
            ("struct(\"\": f64)", "field 1 of a struct has no name"),
            (
                "waveform(waveform(f64))",
                "at byte 17: expected a scalar type; list the length of each dimension, as in array(f64, 3, 4)",
            ),
        ] {
            match parse_type(text) {
                Err(error) => assert_eq!(error.to_string(), sentence, "{text}"),
                Ok(ty) => panic!("{text} was read as {ty}"),
            }
        }
    }

    #[test]
    fn deeply_nested_type_is_refused() {
        let bomb = "struct(x: ".repeat(100_000);
        assert!(parse_type(&bomb).is_err());
        let deep = "struct(x: ".repeat(9) + "u8" + &")".repeat(9);
        assert_eq!(
            parse_type(&deep).unwrap_err().to_string(),
            "structs are nested more than 8 deep"
        );
        assert!(parse_type(&("struct(x: ".repeat(8) + "u8" + &")".repeat(8))).is_ok());
    }

    proptest! {
        #[test]
        fn every_type_round_trips(ty in data_type()) {
            let text = ty.to_string();
            prop_assert_eq!(parse_type(&text), Ok(ty), "{}", text);
        }

        #[test]
        fn no_text_makes_the_parser_panic(
            text in any::<String>(),
            words in prop::collection::vec(
                prop::sample::select(&["struct", "enum", "array", "f64", "(", ")", ",", ":", "*", "\"", "1", " "]),
                0..12,
            ),
        ) {
            let _ = parse_type(&text);
            if let Ok(ty) = parse_type(&words.concat()) {
                prop_assert!(ty.check().is_ok());
            }
        }
    }
}

mod values {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn scalars_round_trip((ty, value) in typed_scalar()) {
            let text = plain(&value, &ty);
            let back = parse_value(&text, &ty);
            prop_assert!(back.is_ok(), "{} as {}: {:?}", text, ty, back);
            prop_assert_eq!(bits(&back.unwrap()), bits(&normal(&value, &ty)), "{} as {}", text, ty);
        }

        #[test]
        fn all_values_round_trip((ty, value) in typed_value()) {
            let text = plain(&value, &ty);
            let back = parse_value(&text, &ty);
            prop_assert!(back.is_ok(), "{} as {}: {:?}", text, ty, back);
            prop_assert_eq!(bits(&back.unwrap()), bits(&normal(&value, &ty)), "{} as {}", text, ty);
        }

        #[test]
        fn hexadecimal_integers_round_trip(signed in any::<i64>(), unsigned in any::<u64>()) {
            let hex = FormatOptions { hex: true, ..FormatOptions::default() };
            let values =
                [(Value::I64(signed), DataType::I64), (Value::U64(unsigned), DataType::U64)];
            for (value, ty) in values {
                prop_assert_eq!(parse_value(&format_value(&value, &ty, &hex), &ty), Ok(value));
            }
        }

        #[test]
        fn no_text_makes_the_value_parser_panic((ty, _) in typed_value(), text in any::<String>(), short in "[-+0-9a-fx.:TZ\\[\\]\"]{0,12}") {
            for text in [text, short] {
                if let Ok(value) = parse_value(&text, &ty) {
                    prop_assert!(value.has_type(&ty));
                }
            }
        }

        #[test]
        fn formatted_text_contains_only_printable_characters((ty, value) in typed_value()) {
            let options = FormatOptions { elide: Some(3), ..FormatOptions::default() };
            for text in [plain(&value, &ty), format_value(&value, &ty, &options)] {
                prop_assert!(!text.contains(is_unprintable), "{:?}", text);
            }
        }
    }

    #[test]
    fn values_are_what_a_person_types() {
        for (text, name, value) in [
            ("true", "bool", Value::Bool(true)),
            ("ON", "bool", Value::Bool(true)),
            ("0", "bool", Value::Bool(false)),
            ("72.5", "f64", Value::F64(72.5)),
            (" 72 ", "f64", Value::F64(72.0)),
            ("-0", "f64", Value::F64(-0.0)),
            ("1e3", "f32", Value::F32(1000.0)),
            (".5", "f64", Value::F64(0.5)),
            ("0x1F", "u8", Value::U8(31)),
            ("-0x80", "i8", Value::I8(-128)),
            ("0b101", "u32", Value::U32(5)),
            ("0o17", "i16", Value::I16(15)),
            ("+5", "i32", Value::I32(5)),
            ("5.0", "i32", Value::I32(5)),
            ("1e3", "u16", Value::U16(1000)),
            ("18446744073709551615", "u64", Value::U64(u64::MAX)),
            ("-9223372036854775808", "i64", Value::I64(i64::MIN)),
            ("hello world", "string", Value::String("hello world".into())),
            ("\"tab\\t\"", "string", Value::String("tab\t".into())),
            ("\"half", "string", Value::String("\"half".into())),
            (" kept ", "string", Value::String(" kept ".into())),
            ("", "string", Value::String("".into())),
            ("0x00fF", "bytes", Value::Bytes([0, 255].into())),
            ("base64:AP8=", "bytes", Value::Bytes([0, 255].into())),
            ("0x", "bytes", Value::Bytes([].into())),
            ("AUTO", "enum(OFF, AUTO)", Value::Enum(1)),
            ("1", "enum(OFF, AUTO)", Value::Enum(1)),
            ("1", "enum(1, 0)", Value::Enum(0)),
            (
                "1970-01-01T00:00:01Z",
                "timestamp",
                Value::Timestamp(Timestamp::from_nanos(1_000_000_000)),
            ),
            (
                "[1, 2.5]",
                "array(f64, *)",
                Value::Array(Arc::new(Array::vector(Elements::F64(vec![1.0, 2.5])))),
            ),
            (
                "{\"x\": 1}",
                "struct(x: i8)",
                Value::Struct([Value::I8(1)].into()),
            ),
        ] {
            assert_eq!(bits(&parse(text, name)), bits(&value), "{text} as {name}");
        }
        for text in ["nan", "-nan", "+NaN"] {
            assert_eq!(
                bits(&parse(text, "f64")),
                bits(&Value::F64(f64::NAN)),
                "{text}"
            );
            assert_eq!(
                bits(&parse(text, "f32")),
                bits(&Value::F32(f32::NAN)),
                "{text}"
            );
        }
        assert_eq!(parse("-inf", "f32"), Value::F32(f32::NEG_INFINITY));
    }

    #[test]
    fn invalid_value_is_refused_with_the_reason() {
        for (text, name, sentence) in [
            ("x", "f64", "\"x\" is not a number (type f64)"),
            ("", "f64", "\"\" is not a number (type f64)"),
            ("72,5", "f64", "72,5 is not a number (type f64)"),
            (
                "1e400",
                "f64",
                "1e400 is outside the range of f64, -1.7976931348623157e308 to 1.7976931348623157e308",
            ),
            (
                "1e39",
                "f32",
                "1e39 is outside the range of f32, -3.4028235e38 to 3.4028235e38",
            ),
            (
                "9007199254740993",
                "f64",
                "9007199254740993 cannot be represented exactly as an f64",
            ),
            ("300", "u8", "300 is outside the range of u8, 0 to 255"),
            ("-1", "u8", "-1 is outside the range of u8, 0 to 255"),
            ("0x100", "u8", "0x100 is outside the range of u8, 0 to 255"),
            ("1e300", "u8", "1e300 is outside the range of u8, 0 to 255"),
            ("3.7", "i32", "3.7 is not an integer (type i32)"),
            ("inf", "i32", "\"inf\" is not an integer (type i32)"),
            ("0x", "i32", "0x is not an integer (type i32)"),
            ("0x-1", "i32", "0x-1 is not an integer (type i32)"),
            ("--1", "i32", "--1 is not an integer (type i32)"),
            ("", "i32", "\"\" is not an integer (type i32)"),
            ("2", "bool", "2 is not a bool: write true or false"),
            (
                "STOP",
                "enum(OFF, AUTO)",
                "\"STOP\" is not one of OFF, AUTO",
            ),
            (
                "auto",
                "enum(OFF, AUTO)",
                "\"auto\" is not one of OFF, AUTO",
            ),
            ("2", "enum(OFF, AUTO)", "2 is not one of OFF, AUTO"),
            (
                "now",
                "timestamp",
                "`now` cannot be used here, because the clocks of two machines differ: \
              write a time such as 2026-11-20T21:39:04Z",
            ),
            (
                "00ff",
                "bytes",
                "00ff is not a value of type bytes: write 0x followed by pairs of hexadecimal digits, \
                 or base64: followed by base64 characters",
            ),
            (
                "0xf",
                "bytes",
                "0xf is not a value of type bytes: write 0x followed by pairs of hexadecimal digits, \
                 or base64: followed by base64 characters",
            ),
            (
                "1, 2",
                "array(f64, *)",
                "an array(f64, *) must be written as JSON: trailing characters at line 1 column 2",
            ),
        ] {
            assert_eq!(refused(text, name), sentence, "{text} as {name}");
        }
        let long = "9".repeat(64 << 10);
        let error = refused(&long, "i64");
        assert!(
            error.contains("is outside the range of i64") && error.len() < 200,
            "{error}"
        );
        assert!(refused(&long, "bool").len() < 200);
    }

    #[test]
    fn precision_sets_the_number_of_digits() {
        let text = |value: f64, digits| {
            let options = FormatOptions {
                precision: Some(digits),
                ..FormatOptions::default()
            };
            format_value(&Value::F64(value), &DataType::F64, &options)
        };
        assert_eq!(text(1234.5678, Digits::Fixed(2)), "1234.57");
        assert_eq!(text(1234.5678, Digits::Scientific(2)), "1.23e3");
        // As printed by C's `%g`, except for the digits of the exponent.
        for (value, digits, expected) in [
            (0.0, 6, "0"),
            (100_000.0, 6, "100000"),
            (1_000_000.0, 6, "1e6"),
            (999_999.5, 6, "1e6"),
            (123_456.7, 6, "123457"),
            (0.0001, 6, "0.0001"),
            (0.000_012_345, 3, "1.23e-5"),
            (-72.449, 3, "-72.4"),
            (72.0, 4, "72"),
            (0.1 + 0.2, 17, "0.30000000000000004"),
            (5.5, 0, "6"),
            (f64::NAN, 3, "NaN"),
        ] {
            assert_eq!(text(value, Digits::Significant(digits)), expected);
        }
    }

    #[test]
    fn options_change_the_formatted_value() {
        let list = |count: u32| {
            let elements = Elements::F64((1..=count).map(f64::from).collect());
            Value::Array(Arc::new(Array::vector(elements)))
        };
        let options = FormatOptions {
            elide: Some(2),
            precision: Some(Digits::Fixed(1)),
            ..FormatOptions::default()
        };
        let array = ty("array(f64, *)");
        assert_eq!(
            format_value(&list(4096), &array, &options),
            "[1.0, 2.0, … 4096 f64]"
        );
        assert_eq!(format_value(&list(2), &array, &options), "[1.0, 2.0]");
        assert_eq!(plain(&list(3), &array), "[1.0, 2.0, 3.0]");
        let matrix = Array::new(vec![2, 3], Elements::U8(vec![1, 2, 3, 4, 5, 255])).unwrap();
        let matrix = Value::Array(Arc::new(matrix));
        let square = ty("array(u8, 2, 3)");
        assert_eq!(plain(&matrix, &square), "[[1, 2, 3], [4, 5, 255]]");
        assert_eq!(format_value(&matrix, &square, &options), "[1, 2, … 2x3 u8]");
        assert_eq!(
            format_value(&Value::F64(72.449), &DataType::F64, &options),
            "72.4"
        );
        assert_eq!(
            format_value(&Value::Bytes([1, 2, 3].into()), &DataType::Bytes, &options),
            "0x0102… 3 bytes"
        );
        let number = FormatOptions {
            enum_number: true,
            hex: true,
            ..FormatOptions::default()
        };
        let mode = ty("enum(OFF, AUTO)");
        assert_eq!(plain(&Value::Enum(1), &mode), "AUTO");
        assert_eq!(format_value(&Value::Enum(1), &mode, &number), "1");
        assert_eq!(
            format_value(&Value::U16(65535), &DataType::U16, &number),
            "0xffff"
        );
        assert_eq!(format_value(&Value::I8(-1), &DataType::I8, &number), "-0x1");
        assert_eq!(plain(&Value::F64(72.0), &DataType::F64), "72.0");
        assert_eq!(plain(&Value::F64(f64::NAN), &DataType::F64), "NaN");
        assert_eq!(plain(&Value::String("".into()), &DataType::String), "\"\"");
        assert_eq!(
            plain(&Value::String("\x1b[2J".into()), &DataType::String),
            "\"\\u001b[2J\""
        );
        let pair = ty("struct(x: f64, mode: enum(OFF, AUTO))");
        let value = Value::Struct([Value::F64(1.25), Value::Enum(1)].into());
        assert_eq!(plain(&value, &pair), "{\"x\": 1.25, \"mode\": \"AUTO\"}");
    }
}

mod times {
    use super::*;

    const DAY: i64 = 86_400_000_000_000;

    /// The part of B-40 that this crate covers: every nanosecond since 1970 is shown and read back.
    ///
    /// Behaviour: B-40.
    #[test]
    fn times_are_formatted_and_parsed() {
        for (nanos, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
            (i64::MIN, "1677-09-21T00:12:43.145224192Z"),
            (946_684_800_000_000_000, "2000-01-01T00:00:00.000000000Z"),
            (951_782_399_999_999_999, "2000-02-28T23:59:59.999999999Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000000000Z"),
            (951_868_800_000_000_000, "2000-03-01T00:00:00.000000000Z"),
            (1_709_164_800_000_000_000, "2024-02-29T00:00:00.000000000Z"),
            (1_735_689_599_999_999_999, "2024-12-31T23:59:59.999999999Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000000000Z"),
            (-2_203_891_200_000_000_000, "1900-03-01T00:00:00.000000000Z"),
            (-2_203_977_600_000_000_000, "1900-02-28T00:00:00.000000000Z"),
            (1_234_567_890_123_456_789, "2009-02-13T23:31:30.123456789Z"),
        ] {
            let time = Timestamp::from_nanos(nanos);
            assert_eq!(format_rfc3339(time), text);
            assert_eq!(parse_rfc3339(text), Ok(time));
        }
    }

    #[test]
    fn every_day_of_the_range_follows_the_previous_day() {
        let first = i64::MIN / DAY;
        let (mut year, mut month, mut day) = (1677, 9, 22);
        for number in first..=i64::MAX / DAY {
            let time = Timestamp::from_nanos(number * DAY);
            let text = format!("{year:04}-{month:02}-{day:02}T00:00:00.000000000Z");
            assert_eq!(time.to_string(), text);
            assert_eq!(parse_rfc3339(&text), Ok(time));
            let leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
            let days = [
                31,
                28 + i32::from(leap),
                31,
                30,
                31,
                30,
                31,
                31,
                30,
                31,
                30,
                31,
            ];
            day += 1;
            if day > days[month - 1] {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
        assert_eq!((year, month, day), (2262, 4, 12));
    }

    #[test]
    fn other_spellings_of_rfc_3339_are_parsed() {
        let time = parse_rfc3339("2026-11-20T21:39:04.123456Z");
        for text in [
            "2026-11-20T21:39:04.123456000Z",
            "2026-11-20t21:39:04.123456z",
            "2026-11-20 21:39:04.123456",
            "2026-11-20T23:39:04.123456+02:00",
            "2026-11-20T16:09:04.123456-05:30",
            "2026-11-21T21:38:04.123456+23:59",
            "2026-11-20T21:39:04.123456000000000Z",
        ] {
            assert_eq!(parse_rfc3339(text), time, "{text}");
        }
        assert_eq!(
            parse_rfc3339("1970-01-01T00:00:00"),
            Ok(Timestamp::UNIX_EPOCH)
        );
        assert_eq!(
            parse_rfc3339("1970-01-01T00:00:00.5Z"),
            Ok(Timestamp::from_nanos(500_000_000))
        );
    }

    #[test]
    fn invalid_time_is_refused() {
        for text in [
            "",
            "now",
            "2026",
            "2026-11-20",
            "2026-11-20T21:39",
            "2026-11-20T21:39:04.",
            "2026-11-20T21:39:04X",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2016-12-31T23:59:60Z",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00+0200",
            "2026-01-01T00:00:00+1:00",
            "26-01-01T00:00:00Z",
            "+026-01-01T00:00:00Z",
            "2026-1-01T00:00:00Z",
            "2026-01-01T00:00:00.1234567891Z",
            "2026/01/01T00:00:00Z",
            "２０２６-01-01T00:00:00Z",
            "2026-01-01T00:00:00Z ",
            "2026-01-01T00:00:00ZZ",
        ] {
            let error = parse_rfc3339(text).unwrap_err().to_string();
            assert!(
                error.contains("is not a time: write a time such as"),
                "{text}: {error}"
            );
        }
        for text in [
            "2262-04-11T23:47:16.854775808Z",
            "1677-09-21T00:12:43.145224191Z",
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
        ] {
            let error = parse_rfc3339(text).unwrap_err().to_string();
            assert!(
                error.contains("is outside the supported range of times, 1677"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn wide_form_is_truncated_to_microseconds() {
        for (nanos, text) in [
            (1_234_567_890_123_456_789, "2009-02-13 23:31:30.123456"),
            (1_234_567_890_999_999_999, "2009-02-13 23:31:30.999999"),
            (-1, "1969-12-31 23:59:59.999999"),
        ] {
            assert_eq!(format_wide(Timestamp::from_nanos(nanos)), text);
        }
    }

    proptest! {
        #[test]
        fn every_nanosecond_round_trips(nanos in any::<i64>()) {
            let time = Timestamp::from_nanos(nanos);
            prop_assert_eq!(parse_rfc3339(&format_rfc3339(time)), Ok(time));
            let wide = parse_rfc3339(&format_wide(time));
            let cut = nanos.div_euclid(1000).checked_mul(1000);
            prop_assert_eq!(wide.ok(), cut.map(Timestamp::from_nanos));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in any::<String>(), near in "[0-9+:TZ.-]{0,40}") {
            let _ = parse_rfc3339(&text);
            let _ = parse_rfc3339(&near);
        }
    }
}

mod escaping {
    //! The corpus of characters that must not be displayed unescaped.

    use serde_json::Value as Json;

    use crate::name::{NameError, check_segment};
    use crate::text::{FormatOptions, escape, escape_except, format_value, is_unprintable};
    use crate::{DataType, Value};

    const CORPUS: &str = include_str!("../../../../vectors/unprintable.txt");

    /// Every character of the corpus, with its class and a flag that is true if it is printable.
    fn characters() -> impl Iterator<Item = (&'static str, char, bool)> {
        let lines = CORPUS.lines().filter(|line| !line.starts_with('#'));
        lines.flat_map(|line| {
            let mut words = line.split_whitespace();
            let class = words.next().unwrap();
            let mut bound = || u32::from_str_radix(words.next().unwrap(), 16).unwrap();
            let (first, last) = (bound(), bound());
            let is_printable = class.ends_with("printable");
            (first..=last).map(move |code| (class, char::from_u32(code).unwrap(), is_printable))
        })
    }

    #[test]
    fn every_character_of_the_corpus_is_escaped_or_kept() {
        for (class, character, is_printable) in characters() {
            let text = format!("a{character}b");
            let escaped = escape(&text);
            let code = u32::from(character);
            assert_eq!(is_unprintable(character), !is_printable, "{class} {code:x}");
            assert_eq!(escaped == text, is_printable, "{class} {code:x}");
            assert!(!escaped.contains(is_unprintable), "{class} {code:x}");
        }
    }

    #[test]
    fn escaped_json_is_the_same_json() {
        for (class, character, _) in characters() {
            let json = Json::from(format!("a{character}b"));
            let escaped = escape(&json.to_string()).into_owned();
            assert!(!escaped.contains(is_unprintable), "{class}: {escaped}");
            assert_eq!(serde_json::from_str::<Json>(&escaped).unwrap(), json);
        }
    }

    #[test]
    fn values_with_unprintable_characters_are_quoted_and_read_back() {
        for (class, character, _) in characters() {
            let text = format!("a{character}b");
            let value = Value::String(text.as_str().into());
            let shown = format_value(&value, &DataType::String, &FormatOptions::default());
            assert!(!shown.contains(is_unprintable), "{class}: {shown}");
            let read = crate::text::parse_value(&shown, &DataType::String).unwrap();
            assert_eq!(read, value, "{class}: {shown}");
        }
    }

    #[test]
    fn names_accept_only_printable_characters() {
        for (class, character, is_printable) in characters() {
            if matches!(character, '/' | '#' | '%' | '*') {
                continue;
            }
            let checked = check_segment(&format!("a{character}b"));
            match is_printable {
                true => assert_eq!(checked, Ok(()), "{class}"),
                false => assert!(
                    matches!(checked, Err(NameError::Unprintable { .. })),
                    "{class}: {checked:?}"
                ),
            }
        }
    }

    #[test]
    fn labels_and_fields_of_types_are_quoted_and_read_back() {
        for (class, character, is_printable) in characters() {
            if is_printable {
                continue;
            }
            let label = Json::from(format!("a{character}b"));
            let ty = crate::text::parse_type(&format!("enum({label}, x)")).unwrap();
            let shown = ty.to_string();
            assert!(!shown.contains(is_unprintable), "{class}: {shown}");
            assert_eq!(crate::text::parse_type(&shown).unwrap(), ty, "{class}");
        }
    }

    #[test]
    fn escapes_are_those_of_json() {
        assert_eq!(escape("a\nb\r\t\u{1b}[31m"), r"a\nb\r\t\u001b[31m");
        assert_eq!(escape("\u{2028}\u{E0041}"), r"\u2028\udb40\udc41");
        assert_eq!(escape("°C 日本 😀"), "°C 日本 😀");
        assert_eq!(escape_except("a\n\u{7}", |c| c == '\n'), "a\n\\u0007");
    }
}
