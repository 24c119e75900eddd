//! Describes how a recording is written, at its start.

use trunkline::record::FileReport;
use trunkline::record::regions::Pages;

use crate::output::json::Object;
use crate::problem::Stop;
use crate::verbs::Context;
use crate::verbs::stream::units::bytes_text;

/// Reports the write method, the memory, and the reason why it is not a better one.
pub(super) fn say_way(report: &FileReport, pages: Pages, context: &Context) -> Result<(), Stop> {
    if context.settings.is_json() {
        let mut object = Object::new();
        object.put("event", "recording");
        object.put("backend", report.backend.to_string());
        object.put("is_direct", report.is_direct);
        object.put("memory", memory(pages));
        let why_not: Vec<String> = report.why_not.iter().map(ToString::to_string).collect();
        object.put("why_not", why_not);
        return context.terminal.note(&object.into_json().to_string());
    }
    let (backend, cache, memory) = (report.backend, cache(report), memory(pages));
    let line = format!("recording with {backend}, {cache}, from {memory}");
    context.terminal.note(&line)?;
    for why_not in &report.why_not {
        context.terminal.note(&format!("  because {why_not}"))?;
    }
    Ok(())
}

/// Describes the destination of writes.
pub(super) fn cache(report: &FileReport) -> &'static str {
    match report.is_direct {
        true => "around the system's cache",
        false => "through the system's cache",
    }
}

/// Describes the source of writes: the fewer pages, the cheaper a write.
fn memory(pages: Pages) -> String {
    match pages {
        Pages::Huge => "huge pages".to_owned(),
        Pages::Large { bytes } if bytes > 0 => {
            format!("{} of large pages", bytes_text(bytes as f64))
        }
        _ => "ordinary pages".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_called_large_where_some_of_it_is() {
        assert_eq!(memory(Pages::Huge), "huge pages");
        let large = memory(Pages::Large { bytes: 64_000_000 });
        assert_eq!(large, "64.0 MB of large pages");
        assert_eq!(memory(Pages::Large { bytes: 0 }), "ordinary pages");
        assert_eq!(memory(Pages::Ordinary), "ordinary pages");
    }
}
