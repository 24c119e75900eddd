//! Audit entries as syslog messages of RFC 5424.
//!
//! ```text
//! <PRI>1 TIMESTAMP HOSTNAME trunkline - MSGID [trunkline@32473 number="7" ...] who action name ...
//! ```
//!
//! The structured data contains every field of the entry, so that its hash can be computed again.

use std::fmt::Write;

use trunkline_types::{AuditAction, AuditEntry, AuditOutcome, Tick};

/// Name of the structured data. 32473 is the enterprise number for documentation (RFC 5612), because
/// this project has none of its own.
const SD_ID: &str = "trunkline@32473";
/// The facility "log audit".
const FACILITY: u8 = 13;
/// Maximum length of the host name, in bytes.
const HOSTNAME_BYTES_MAX: usize = 255;

/// A severity of RFC 5424.
#[derive(Clone, Copy)]
enum Severity {
    Error = 3,
    Warning = 4,
    Notice = 5,
    Informational = 6,
}

/// Returns the message of an entry, without a line break at its end.
pub(super) fn message(entry: &AuditEntry, host: &str) -> String {
    let priority = FACILITY * 8 + severity(entry) as u8;
    let time = timestamp(&entry.when.to_string());
    let host = header_field(host, HOSTNAME_BYTES_MAX);
    let kind = header_field(&entry.action.to_string().replace(' ', "-"), 32);
    let mut message = format!("<{priority}>1 {time} {host} trunkline - {kind} [{SD_ID}");
    for (name, value) in parameters(entry) {
        // Writing to a string cannot fail.
        let _ = write!(message, " {name}=\"{}\"", parameter_value(&value));
    }
    message.push_str("] ");
    let text = printable(&sentence(entry));
    if !text.is_ascii() {
        // Marks the text as UTF-8.
        message.push('\u{feff}');
    }
    message.push_str(&text);
    message
}

fn severity(entry: &AuditEntry) -> Severity {
    match (&entry.outcome, entry.action) {
        (AuditOutcome::Lost(_), _) => Severity::Error,
        (AuditOutcome::Refused(_) | AuditOutcome::Unknown(_), _) => Severity::Warning,
        (_, AuditAction::AccessChange | AuditAction::Configure | AuditAction::Revoke) => {
            Severity::Notice
        }
        (AuditOutcome::Done | AuditOutcome::Applied(_) | AuditOutcome::Unchanged(_), _) => {
            Severity::Informational
        }
    }
}

/// Cuts a time to microseconds, the finest resolution that RFC 5424 permits.
fn timestamp(text: &str) -> String {
    match text.split_once('.') {
        Some((seconds, fraction)) => {
            let digits: String = fraction
                .chars()
                .take_while(char::is_ascii_digit)
                .take(6)
                .collect();
            format!("{seconds}.{digits}Z")
        }
        None => text.to_owned(),
    }
}

/// Returns a field of the header, which has printable ASCII characters only; `-` if there are none.
fn header_field(text: &str, max: usize) -> String {
    let field: String = text
        .chars()
        .filter(char::is_ascii_graphic)
        .take(max)
        .collect();
    match field.is_empty() {
        true => "-".to_owned(),
        false => field,
    }
}

/// Returns the parameters of the structured data. Empty fields are left out.
fn parameters(entry: &AuditEntry) -> Vec<(&'static str, String)> {
    let outcome = entry.outcome.parts();
    let mut parameters = vec![
        ("number", entry.number.to_string()),
        ("ts", entry.when.to_string()),
        ("who", entry.who.clone()),
        ("from", entry.from.clone()),
        ("action", entry.action.to_string()),
        ("name", entry.name.clone()),
        ("type", entry.data_type.clone()),
        ("old", entry.old.clone()),
        ("new", entry.new.clone()),
        ("outcome", entry.outcome.name().to_owned()),
        ("message", outcome.sentence.to_owned()),
    ];
    match &entry.outcome {
        AuditOutcome::Applied(position) | AuditOutcome::Unchanged(position) => {
            parameters.push(("epoch", position.epoch.to_string()));
            parameters.push(("seq", position.sequence.to_string()));
        }
        AuditOutcome::Lost(count) => parameters.push(("lost", count.to_string())),
        AuditOutcome::Done | AuditOutcome::Refused(_) | AuditOutcome::Unknown(_) => {}
    }
    if entry.monotonic != Tick::ZERO {
        parameters.push(("monotonic", entry.monotonic.as_nanos().to_string()));
    }
    if let Some(link) = entry.link {
        parameters.push(("previous", link.previous.to_string()));
        parameters.push(("hash", link.hash.to_string()));
    }
    parameters.retain(|(_, value)| !value.is_empty());
    parameters
}

/// Escapes a value of a parameter: a backslash before `"`, `\` and `]`, and nothing else. Control
/// characters, which a receiver may treat as the end of the message, are replaced first.
fn parameter_value(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    for character in printable(text).chars() {
        if matches!(character, '"' | '\\' | ']') {
            value.push('\\');
        }
        value.push(character);
    }
    value
}

/// Replaces control characters with their escapes, such as `\n` and `\u{7f}`.
fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => printable.extend(character.escape_default()),
            false => printable.push(character),
        }
    }
    printable
}

/// Describes the entry for people.
fn sentence(entry: &AuditEntry) -> String {
    let AuditEntry {
        who,
        action,
        name,
        old,
        new,
        outcome,
        ..
    } = entry;
    let change = match (old.is_empty(), new.is_empty()) {
        (true, true) => String::new(),
        (true, false) => new.clone(),
        (false, true) => format!("from {old}"),
        (false, false) => format!("{old} -> {new}"),
    };
    let words = [who.as_str(), &action.to_string(), name, &change];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    format!("{}: {outcome}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use trunkline_types::audit::{AuditHash, AuditLink};
    use trunkline_types::{Position, Timestamp};

    use super::*;

    fn entry() -> AuditEntry {
        AuditEntry {
            number: 7,
            when: Timestamp::from_nanos(1_764_500_000_123_456_789),
            monotonic: Tick::from_nanos(42),
            who: "local:1000".to_owned(),
            from: "process 7".to_owned(),
            action: AuditAction::Put,
            name: "bench/volts".to_owned(),
            data_type: "f64".to_owned(),
            old: "5.0".to_owned(),
            new: "12.5".to_owned(),
            outcome: AuditOutcome::Applied(Position {
                epoch: 3,
                sequence: 2,
            }),
            link: None,
        }
    }

    #[test]
    fn message_has_header_structured_data_and_text() {
        assert_eq!(
            message(&entry(), "plant-7"),
            "<110>1 2025-11-30T10:53:20.123456Z plant-7 trunkline - put [trunkline@32473 \
             number=\"7\" ts=\"2025-11-30T10:53:20.123456789Z\" who=\"local:1000\" \
             from=\"process 7\" action=\"put\" name=\"bench/volts\" type=\"f64\" old=\"5.0\" \
             new=\"12.5\" outcome=\"applied\" epoch=\"3\" seq=\"2\" monotonic=\"42\"] local:1000 put \
             bench/volts 5.0 -> 12.5: applied as update 2"
        );
    }

    #[test]
    fn hash_and_hash_before_are_part_of_the_message() {
        let mut entry = entry();
        let link = AuditLink::new(AuditHash([0xab; 32]), &entry);
        entry.link = Some(link);
        let message = message(&entry, "h");
        let expected = format!(" previous=\"{}\" hash=\"{}\"] ", "ab".repeat(32), link.hash);
        assert!(message.contains(&expected), "{message}");
    }

    #[test]
    fn three_characters_are_escaped_and_line_breaks_are_replaced() {
        for (value, expected) in [
            ("plain", "plain"),
            (r#"a"b"#, r#"a\"b"#),
            (r"a\b", r"a\\b"),
            ("a]b[c", r"a\]b[c"),
            (r#"\"]"#, r#"\\\"\]"#),
            ("a\nb\r\0\u{7f}", r"a\\nb\\r\\u{0}\\u{7f}"),
            ("°C ä", "°C ä"),
        ] {
            assert_eq!(parameter_value(value), expected, "{value:?}");
        }
        let mut entry = entry();
        entry.new = "x\ny\"]".to_owned();
        let message = message(&entry, "h");
        assert!(!message.contains('\n'), "{message}");
        assert!(message.contains(r#" new="x\\ny\"\]" "#), "{message}");
    }

    #[test]
    fn text_beyond_ascii_is_marked_as_utf_8() {
        let mut entry = entry();
        assert!(!message(&entry, "h").contains('\u{feff}'));
        entry.new = "12 °C".to_owned();
        let message = message(&entry, "h");
        assert!(message.contains("] \u{feff}local:1000 put"), "{message}");
    }

    #[test]
    fn header_has_printable_ascii_only() {
        for (host, expected) in [("plant 7", "plant7"), ("", "-"), ("ä", "-"), ("a\nb", "ab")] {
            let message = message(&entry(), host);
            assert_eq!(message.split(' ').nth(2), Some(expected), "{host:?}");
        }
        let long = message(&entry(), &"h".repeat(300));
        assert_eq!(long.split(' ').nth(2).map(str::len), Some(255));
    }

    #[test]
    fn severity_depends_on_the_outcome_and_the_action() {
        let priority = |action, outcome| {
            let entry = AuditEntry {
                action,
                outcome,
                ..entry()
            };
            message(&entry, "h").split('>').next().map(str::to_owned)
        };
        let refused = AuditOutcome::Refused("no".to_owned());
        for (action, outcome, expected) in [
            (AuditAction::Put, AuditOutcome::Done, "<110"),
            (AuditAction::Login, refused, "<108"),
            (AuditAction::AccessChange, AuditOutcome::Done, "<109"),
            (AuditAction::Lost, AuditOutcome::Lost(3), "<107"),
        ] {
            assert_eq!(priority(action, outcome).as_deref(), Some(expected));
        }
        let two_words = AuditEntry {
            action: AuditAction::EngineStart,
            ..entry()
        };
        assert_eq!(
            message(&two_words, "h").split(' ').nth(5),
            Some("engine-start")
        );
    }
}
