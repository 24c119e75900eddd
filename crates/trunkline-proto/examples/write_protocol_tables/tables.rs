//! The tables and diagrams of the protocol reference, made from the code.

#[path = "diagrams.rs"]
mod diagrams;

use std::time::Duration;

use trunkline_proto::kind::Sender;
use trunkline_proto::limits::*;
use trunkline_proto::{FaultCode, FrameKind};
use trunkline_types::contract::BUFFER_ELEMENTS_MAX;
use trunkline_types::wire::VALUE_BYTES_MAX;

use diagrams::diagram;

/// The page with every table and diagram generated again.
///
/// # Errors
/// The name of a table whose marks the page lacks.
pub fn fill(page: &str) -> Result<String, String> {
    let tables = [
        ("kinds", kinds()),
        ("limits", limits()),
        ("faults", faults()),
    ];
    let diagrams = FrameKind::ALL.iter().filter_map(|kind| {
        // A frame with the form of another one has no diagram of its own.
        let is_like_another = page.contains(&format!("\n### {kind}\n\nAs "));
        let diagram = diagram(*kind).filter(|_| !is_like_another);
        diagram.map(|diagram| (kind.name(), diagram))
    });
    let tables: Vec<_> = tables.into_iter().chain(diagrams).collect();
    let mut page = page.to_owned();
    for (name, table) in tables {
        let begin = format!("<!-- generated: {name} -->\n");
        let missing = || format!("the page needs `{}` and `<!-- end -->`", begin.trim_end());
        let (before, rest) = page.split_once(&begin).ok_or_else(missing)?;
        let (_, after) = rest.split_once("<!-- end -->").ok_or_else(missing)?;
        page = format!("{before}{begin}\n{table}\n<!-- end -->{after}");
    }
    Ok(page)
}

fn kinds() -> String {
    let mut table = String::from("| Number | Kind | From | Purpose |\n|---|---|---|---|\n");
    for kind in FrameKind::ALL {
        let from = match kind.sender() {
            Sender::Client => "client",
            Sender::Engine => "engine",
            Sender::Both => "both",
        };
        let anchor = kind.name().to_lowercase();
        let line = format!(
            "| {} | [{kind}](#{anchor}) | {from} | {} |\n",
            kind.number(),
            kind.purpose()
        );
        table.push_str(&line);
    }
    table
}

fn faults() -> String {
    let mut table = String::from("| Number | Fault | Meaning |\n|---|---|---|\n");
    for code in FaultCode::ALL {
        let line = format!("| {} | `{code}` | {} |\n", code.number(), code.meaning());
        table.push_str(&line);
    }
    table
}

fn limits() -> String {
    let count = |number: u32, of: &str| format!("{} {of}", thousands(number.into()));
    let rows = [
        (
            "payload of a frame before the hello is done",
            bytes(HELLO_FRAME_MAX.into()),
        ),
        (
            "time from connecting to the end of the hello",
            seconds(HELLO_DEADLINE),
        ),
        (
            "payload of a frame (`frame_max`)",
            bytes(FRAME_MAX_DEFAULT.into()),
        ),
        (
            "`frame_max` that can be agreed",
            format!(
                "{} to {}",
                bytes(FRAME_MAX_MIN.into()),
                bytes(FRAME_MAX_MAX.into())
            ),
        ),
        (
            "payload of a message in parts (`message_max`)",
            bytes(MESSAGE_MAX_DEFAULT.into()),
        ),
        (
            "time from a frame's first byte to its last",
            seconds(FRAME_DEADLINE),
        ),
        ("one value", bytes(VALUE_BYTES_MAX as u64)),
        (
            "items open in one session (`items_max`)",
            count(ITEMS_MAX_DEFAULT, "items"),
        ),
        (
            "writes without an answer (`write_credit_count`)",
            count(WRITE_CREDIT_COUNT, "writes"),
        ),
        (
            "bytes of their values (`write_credit_bytes`)",
            bytes(WRITE_CREDIT_BYTES.into()),
        ),
        (
            "bytes that wait in the `all` and `first` subscriptions of a session",
            bytes(QUEUE_BYTES_MAX_DEFAULT as u64),
        ),
        (
            "updates without an acknowledgement (`window_records`)",
            count(WINDOW_RECORDS_DEFAULT, "records"),
        ),
        (
            "bytes of them (`window_bytes`)",
            bytes(WINDOW_BYTES_DEFAULT.into()),
        ),
        (
            "buffer of `last` and `first`",
            count(BUFFER_ELEMENTS_MAX, "elements"),
        ),
        (
            "requests and items of all sessions, unless configured; one session gets at most half",
            bytes(REQUEST_BYTES_MAX_DEFAULT as u64),
        ),
        (
            "time from a frame of a request to the next frame of the same request",
            seconds(REQUEST_DEADLINE),
        ),
        (
            "interval of keep-alives (`keepalive_ms`)",
            seconds(KEEPALIVE_INTERVAL),
        ),
        (
            "silence after which a peer is treated as dead (`deadline_ms`)",
            seconds(KEEPALIVE_DEADLINE),
        ),
        (
            "an error text; longer ones are truncated",
            bytes(SENTENCE_BYTES_MAX as u64),
        ),
        (
            "a page of a bulk request or answer, about",
            bytes(PAGE_BYTES as u64),
        ),
    ];
    let mut table = String::from("| What | Default limit |\n|---|---|\n");
    for (what, limit) in rows {
        table.push_str(&format!("| {what} | {limit} |\n"));
    }
    table
}

fn bytes(number: u64) -> String {
    match number {
        n if n.is_multiple_of(1 << 20) => format!("{} MiB", n >> 20),
        n if n.is_multiple_of(1 << 10) => format!("{} KiB", n >> 10),
        n => format!("{} bytes", thousands(n)),
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
