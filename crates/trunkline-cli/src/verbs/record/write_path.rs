//! Reports how a recording is written, when it starts.

use trunkline::record::FileReport;
use trunkline::record::regions::Pages;

use super::recorded::{RecordingEvent, WritePath};
use crate::verbs::stream::units::bytes_text;
use crate::{CliError, Context};

pub(super) fn report(report: &FileReport, pages: Pages, context: &Context) -> Result<(), CliError> {
    context.notify(&RecordingEvent::Recording {
        file: None,
        path: Some(WritePath {
            backend: report.backend.to_string(),
            is_direct: report.is_direct,
            memory: memory(pages),
            why_not: report
                .fallback_reasons
                .iter()
                .map(ToString::to_string)
                .collect(),
        }),
    })
}

/// Describes the memory pages from which data is written. Larger pages make a write cheaper.
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
    fn memory_counts_as_large_if_a_part_is_large() {
        assert_eq!(memory(Pages::Huge), "huge pages");
        let large = memory(Pages::Large { bytes: 64_000_000 });
        assert_eq!(large, "64.0 MB of large pages");
        assert_eq!(memory(Pages::Large { bytes: 0 }), "ordinary pages");
        assert_eq!(memory(Pages::Ordinary), "ordinary pages");
    }
}
