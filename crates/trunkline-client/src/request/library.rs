//! Deploys libraries, and undeploys, starts or stops them; stops the engine, and reloads its
//! configuration.

use std::sync::Arc;

use trunkline_proto::message::library::{
    DeployBuilder, DeployHead, LibraryOrder, LibraryReport, LibraryVerb,
};
use trunkline_proto::{Disconnect, Fault, Features, FrameKind};
use trunkline_types::LibraryDefinition;

use super::{Answering, Ending, Exchange, Next, Prepared, Sending};
use crate::parts::Parts;

const REQUIRED: (Features, &str) = (
    Features::ADMINISTRATION,
    "does not accept library commands over the network; update it, or change its \
     configuration files",
);

#[derive(Debug)]
pub struct Deploy {
    pub(crate) library: Arc<LibraryDefinition>,
    pub(crate) replace: bool,
    pub(crate) report: Option<LibraryReport>,
}

impl Exchange for Deploy {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Report);
    type End = Result<LibraryReport, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        Some(REQUIRED)
    }

    fn changes_engine(&self) -> bool {
        true
    }

    fn prepare(&mut self, _: &mut Parts) -> Prepared {
        match self.library.variables.len() {
            0 => Prepared::Single,
            count => Prepared::Items(count as u32),
        }
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let library = &self.library;
        let head = DeployHead {
            library: &library.name,
            description: &library.description,
            replace: self.replace,
        };
        let mut frame = DeployBuilder::begin(sending.out, sending.number, &head);
        let unsent = library.variables.get(*sending.sent as usize..);
        for variable in unsent.unwrap_or_default() {
            if frame.len_bytes() >= sending.page {
                break;
            }
            frame.push(variable);
            *sending.sent += 1;
        }
        frame.finish(*sending.sent < sending.total);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        self.report = Some(LibraryReport::decode(answer.frame)?);
        // The report covers all variables, even if the engine has not examined all of them.
        *answer.answered = self.library.variables.len() as u32;
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(self.report)
    }
}

/// Undeploys, starts or stops a library.
#[derive(Debug)]
pub struct OrderLibrary {
    pub(crate) verb: LibraryVerb,
    pub(crate) library: String,
    pub(crate) report: Option<LibraryReport>,
}

impl Exchange for OrderLibrary {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Report);
    type End = Result<LibraryReport, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        Some(REQUIRED)
    }

    fn changes_engine(&self) -> bool {
        true
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let (verb, library) = (self.verb, self.library.as_str());
        LibraryOrder { verb, library }.encode(sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        self.report = Some(LibraryReport::decode(answer.frame)?);
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(self.report)
    }
}

/// Stops the engine.
#[derive(Debug, Default)]
pub struct StopEngine(Option<LibraryReport>);

impl Exchange for StopEngine {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Report);
    type End = Result<(), Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        let sentence =
            "does not stop by order of a client; stop the program that runs it, or update it";
        Some((Features::ENGINE_ORDERS, sentence))
    }

    fn changes_engine(&self) -> bool {
        true
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let (verb, library) = (LibraryVerb::StopEngine, "");
        LibraryOrder { verb, library }.encode(sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        self.0 = Some(LibraryReport::decode(answer.frame)?);
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(self.0.map(|_| ()))
    }
}

/// Makes the engine read its configuration files again.
#[derive(Debug, Default)]
pub struct ReloadEngine(Option<LibraryReport>);

impl Exchange for ReloadEngine {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Report);
    type End = Result<LibraryReport, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        let sentence = "does not reload its configuration by order of a client; start it again, or \
                        update it";
        Some((Features::RELOAD, sentence))
    }

    fn changes_engine(&self) -> bool {
        true
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let (verb, library) = (LibraryVerb::ReloadEngine, "");
        LibraryOrder { verb, library }.encode(sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        self.0 = Some(LibraryReport::decode(answer.frame)?);
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(self.0)
    }
}
