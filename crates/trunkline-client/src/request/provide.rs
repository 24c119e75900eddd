//! Requests the role of a provider.

use std::time::Duration;

use trunkline_proto::message::provider::{ProvideBuilder, ProvideHead, decode_provided};
use trunkline_proto::{Disconnect, Features, FrameKind};

use super::{Answering, Ending, Exchange, Next, Sending};
use crate::ask::Provide;
use crate::parts::Parts;

/// The requested lease. The engine grants the deadline of the connection instead.
const LEASE: Duration = Duration::from_secs(3);

impl Exchange for Provide {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Provided);
    type End = ();

    fn requires(&self) -> Option<(Features, &'static str)> {
        let missing = "does not accept I/O servers over the network; update it";
        Some((Features::PROVIDER, missing))
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let head = ProvideHead {
            lease: LEASE,
            provider: &self.0,
        };
        ProvideBuilder::begin(sending.out, sending.number, &head).finish(false);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        decode_provided(answer.frame)?;
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) {
        let Parts { base, provider, .. } = ending.parts;
        provider.answered(base, ending.fault);
    }
}
