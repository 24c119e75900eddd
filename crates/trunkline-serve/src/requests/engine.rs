//! Handles ENGINE: describes the engine and its libraries.

use trunkline_proto::Disconnect;
use trunkline_proto::limits::ENGINE_LIBRARIES_MAX;
use trunkline_proto::message::engine::{EngineInfo, LibraryInfo};
use trunkline_proto::message::single::decode_empty;
use trunkline_types::Moment;
use trunkline_types::name::is_reserved;

use crate::context::{Context, Progress, Request};
use crate::gate::Admitted;

#[derive(Debug)]
struct EngineRequest(u32);

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Disconnect> {
    decode_empty(frame)?;
    context.queue.push(EngineRequest(frame.request()));
    Ok(())
}

impl Request for EngineRequest {
    fn run(&mut self, context: &mut Context) -> Progress {
        let Moment { now, wall } = context.moment;
        let uptime = now.since(context.options.started);
        let libraries = context.engine.libraries().all();
        let facts = context.options.facts.as_ref();
        let info = EngineInfo {
            name: context.engine.name().to_owned(),
            version: context.options.version.clone(),
            epoch: context.engine.epoch(),
            uptime,
            pid: context.options.pid,
            variables: context.engine.libraries().variable_count() as u64,
            sessions: facts.map_or(1, |facts| facts.sessions()),
            host: facts.map_or_else(String::new, |facts| facts.host()),
            started: wall
                .saturating_add_nanos(-i64::try_from(uptime.as_nanos()).unwrap_or(i64::MAX)),
            libraries: libraries
                .into_iter()
                .filter(|library| !is_reserved(&library.name))
                .take(ENGINE_LIBRARIES_MAX)
                .map(|library| LibraryInfo {
                    name: library.name,
                    state: library.state.name().to_owned(),
                    variables: library.handles.len() as u64,
                    description: library.description,
                })
                .collect(),
        };
        info.encode(self.0, &mut context.answers.frames);
        Progress::Done
    }
}
