//! Sends the requests of watched patterns, and ends them.

use trunkline_proto::message::watch::{Unwatch as UnwatchFrame, Watch as WatchFrame};
use trunkline_proto::{Features, FrameKind};

use super::{Ending, Exchange, Sending};
use crate::ask::{Unwatch, Watch};
use crate::parts::Parts;

// The engine also sends APPEARED frames without a request, so `Watches::handle_appeared` processes
// all of them.
impl Exchange for Watch {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Appeared);
    type End = ();

    fn requires(&self) -> Option<(Features, &'static str)> {
        let missing = "cannot follow patterns; update it, or use find";
        Some((Features::PATTERNS, missing))
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let (watch, pattern) = (self.number, &*self.pattern);
        WatchFrame { watch, pattern }.encode(sending.number, sending.out);
    }

    fn end(self, ending: Ending<'_>) {
        if let Some(fault) = ending.fault {
            let Parts { base, patterns, .. } = ending.parts;
            patterns.watches.refused(base, self.key, fault);
        }
    }
}

impl Exchange for Unwatch {
    const ANSWERED_BY: Option<FrameKind> = None;
    type End = ();

    fn encode(&mut self, sending: &mut Sending<'_>) {
        UnwatchFrame { watch: self.0 }.encode(0, sending.out);
    }

    fn end(self, _: Ending<'_>) {}
}
