//! The diagrams of the declared frames, made from their declarations.

use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::kinds::{MessageVisitor, with_message};
use trunkline_proto::message::layout::{Field, Record};
use trunkline_proto::message::list::ListFrame;
use trunkline_proto::message::provider::ProviderOutcome;
use trunkline_proto::message::single::SingleFrame;
use trunkline_proto::message::subscribe::SubscribeTerms;
use trunkline_proto::{FaultRef, FrameKind, VersionRange};
use trunkline_types::Position;
use trunkline_types::history::{HistoryCursor, RowKey};
use trunkline_types::ledger::SubscriptionLedger;
use trunkline_types::{Quality, Value};

/// Longest line of a diagram.
const WIDTH: usize = 100;

/// The diagram of a declared frame; `None` for other frames, and for those that are nothing or only
/// a list of fields.
pub fn diagram(kind: FrameKind) -> Option<String> {
    let lines = with_message(kind, Draw)?;
    let has_diagram = !lines.is_empty() && lines != ["fields"];
    has_diagram.then(|| format!("```text\n{}\n```\n", lines.join("\n")))
}

struct Draw;

impl MessageVisitor<'static> for Draw {
    type Output = Option<Vec<String>>;

    fn list<F: ListFrame>(self) -> Self::Output {
        let mut lines = wrapped("", &parts(F::Head::<'static>::FIELDS), "");
        let mut items = parts(F::Item::<'static>::FIELDS);
        if F::Item::<'static>::MAY_FAIL {
            items.insert(0, "0".to_owned());
        }
        lines.extend(wrapped("n x ( ", &items, " )"));
        if F::Item::<'static>::MAY_FAIL {
            lines.push("    ( code varint | sentence text )    refused".to_owned());
        }
        Some(lines)
    }

    fn single<M: SingleFrame<'static>>(self) -> Self::Output {
        Some(wrapped("", &parts(M::FIELDS), ""))
    }

    fn by_hand(self, _: FrameKind) -> Self::Output {
        None
    }
}

/// The parts in lines that are not too long.
fn wrapped(before: &str, parts: &[String], after: &str) -> Vec<String> {
    let Some((last, others)) = parts.split_last() else {
        return Vec::new();
    };
    let indent = " ".repeat(before.len());
    let (mut lines, mut line) = (Vec::new(), before.to_owned());
    let parts = others.iter().map(|part| format!("{part} | "));
    for part in parts.chain([format!("{last}{after}")]) {
        if line.len() + part.trim_end().len() > WIDTH {
            lines.push(line.trim_end().to_owned());
            line.clone_from(&indent);
        }
        line.push_str(&part);
    }
    lines.push(line);
    lines
}

fn parts(fields: &[Field]) -> Vec<String> {
    let fields = fields.iter();
    fields
        .flat_map(|field| part(field.name, field.ty, field.form))
        .collect()
}

fn part(name: &str, ty: &str, form: &str) -> Vec<String> {
    let (form, arguments) = form.split_once('<').unwrap_or((form, ""));
    let arguments = arguments.strip_suffix('>').unwrap_or(arguments);
    let drawn = match form {
        "" => name.to_owned(),
        "FlagsThen" | "MagicThen" => {
            // What may follow is the largest legal number of the flags.
            let inner = arguments
                .rsplit_once(", ")
                .filter(|(form, _)| form.ends_with('>'));
            let before = if form == "FlagsThen" {
                "flags u8"
            } else {
                "\"TRNK\""
            };
            let mut drawn = part(name, ty, inner.map_or(arguments, |(form, _)| form));
            drawn.insert(0, before.to_owned());
            return drawn;
        }
        "Optional" | "IfHead" => {
            let (_, form) = arguments.split_once(", ").unwrap_or(("", arguments));
            let ty = ty
                .strip_prefix("Option<")
                .and_then(|ty| ty.strip_suffix('>'))
                .unwrap_or(ty);
            format!("[{}]", part(name, ty, form).join(" | "))
        }
        "Inner" | "Flat" => return parts(nested(ty)),
        "Flag" | "HeaderFlag" | "Options" | "Elsewhere" => return Vec::new(),
        "Handle" | "Terms" | "Type" | "Typed" => name.to_owned(),
        "Recorded" => format!("width varint | {name} bytes"),
        "Verb" => "verb u8 | flags u8".to_owned(),
        form => format!("{name} {}", wire(form, ty)),
    };
    vec![drawn]
}

/// The fields of a record within a record.
fn nested(ty: &str) -> &'static [Field] {
    match ty {
        "SubscribeTerms" => SubscribeTerms::FIELDS,
        "SubscribeFlags" => SubscribeFlags::FIELDS,
        "SubscriptionLedger" => SubscriptionLedger::FIELDS,
        "HistoryCursor" => HistoryCursor::FIELDS,
        "Position" => Position::FIELDS,
        "RowKey" => RowKey::FIELDS,
        "VersionRange" => VersionRange::FIELDS,
        "FaultRef<'a>" => FaultRef::FIELDS,
        "ProviderOutcome<'a>" => ProviderOutcome::FIELDS,
        "(Value, Quality)" => <(Value, Quality)>::FIELDS,
        other => panic!("the fields of {other} are not known here"),
    }
}

/// The form on the wire, in the words of the page.
fn wire<'t>(form: &'t str, ty: &'t str) -> &'t str {
    match (form, ty) {
        ("Fixed", "Ticket" | "[u8; 16]") => "16 bytes",
        ("Fixed", _) => ty,
        ("Varint" | "Millis" | "VarintOrZero" | "Commit" | "Culprit", _) => "varint",
        ("Ticket", _) => "zigzag",
        ("Number", _) => "u8",
        ("Code", _) => "u16",
        ("FixedMillis" | "RetryMillis" | "QualityBits", _) => "u32",
        ("OrZero" | "Position", _) => "u64",
        ("Nanos", _) => "i64",
        ("Text" | "Name", _) => "text",
        ("Bytes", _) => "bytes",
        ("Rest", _) => "to the end",
        _ => panic!("the form {form} is not known here"),
    }
}
