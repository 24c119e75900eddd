//! Handles ENGINE: describes the engine, and the libraries of which the client may read a variable.

use std::vec::IntoIter;

use trunkline_proto::Disconnect;
use trunkline_proto::limits::ENGINE_LIBRARIES_MAX;
use trunkline_proto::message::engine::{EngineInfo, LibraryInfo};
use trunkline_proto::message::single::decode_empty;
use trunkline_types::Moment;
use trunkline_types::name::is_reserved;

use crate::context::{Context, Progress, Request};
use crate::gate::Admitted;

#[derive(Debug)]
struct EngineRequest {
    request: u32,
    /// The libraries counted so far; `None` before the first slice.
    census: Option<Box<Census>>,
}

/// A count of the variables that the client may read, carried out in slices.
#[derive(Debug)]
struct Census {
    /// Names of the libraries that follow `current`.
    names: IntoIter<String>,
    current: Option<Counted>,
    counted: Vec<LibraryInfo>,
    /// Number of readable variables, including those of libraries that are not listed.
    variables: u64,
}

/// A library that is being counted.
#[derive(Debug)]
struct Counted {
    name: String,
    /// Number of its variables that were examined.
    examined: usize,
    readable: usize,
}

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Disconnect> {
    decode_empty(frame)?;
    context.queue.push(EngineRequest {
        request: frame.request(),
        census: None,
    });
    Ok(())
}

impl Request for EngineRequest {
    fn run(&mut self, context: &mut Context) -> Progress {
        if context.caller.rights.permit_all_reads() {
            let (libraries, variables) = all_libraries(context);
            answer(context, self.request, libraries, variables);
            return Progress::Done;
        }
        // Variables that the client may not read do not exist for it (B-82), so the variables are
        // counted.
        let census = self.census.get_or_insert_with(|| {
            Box::new(Census {
                names: context.engine.libraries().names().into_iter(),
                current: None,
                counted: Vec::new(),
                variables: 0,
            })
        });
        if !census.count_slice(context) {
            return Progress::More;
        }
        let libraries = std::mem::take(&mut census.counted);
        answer(context, self.request, libraries, census.variables);
        Progress::Done
    }
}

impl Census {
    /// Counts the next slice of variables. Returns true at the end.
    fn count_slice(&mut self, context: &Context) -> bool {
        let libraries = context.engine.libraries();
        if self.current.is_none() {
            let name = self.names.find(|name| !is_reserved(name));
            self.current = name.map(|name| Counted {
                name,
                examined: 0,
                readable: 0,
            });
        }
        let Some(current) = &mut self.current else {
            return true;
        };
        let (count, next) =
            libraries.count_readable(&context.caller, &current.name, current.examined);
        current.readable += count;
        if let Some(next) = next {
            current.examined = next;
            return false;
        }
        let Some(Counted { name, readable, .. }) = self.current.take() else {
            return false;
        };
        self.variables += readable as u64;
        if readable > 0
            && self.counted.len() < ENGINE_LIBRARIES_MAX
            && let Some((state, description)) = libraries.describe(&name)
        {
            self.counted.push(LibraryInfo {
                name,
                state: state.name().to_owned(),
                variables: readable as u64,
                description,
            });
        }
        false
    }
}

/// Returns the libraries, and the number of their variables, for a client that may read all.
fn all_libraries(context: &Context) -> (Vec<LibraryInfo>, u64) {
    let libraries = context.engine.libraries();
    let listed = libraries
        .all()
        .into_iter()
        .filter(|library| !is_reserved(&library.name))
        .take(ENGINE_LIBRARIES_MAX)
        .map(|library| LibraryInfo {
            name: library.name,
            state: library.state.name().to_owned(),
            variables: library.handles.len() as u64,
            description: library.description,
        });
    (listed.collect(), libraries.variable_count() as u64)
}

fn answer(context: &mut Context, request: u32, libraries: Vec<LibraryInfo>, variables: u64) {
    let Moment { now, wall } = context.moment;
    let uptime = now.since(context.options.started);
    let facts = context.options.facts.as_ref();
    let info = EngineInfo {
        name: context.engine.name().to_owned(),
        version: context.options.version.clone(),
        epoch: context.engine.epoch(),
        uptime,
        pid: context.options.pid,
        variables,
        sessions: facts.map_or(1, |facts| facts.sessions()),
        host: facts.map_or_else(String::new, |facts| facts.host()),
        started: wall.saturating_add_nanos(-i64::try_from(uptime.as_nanos()).unwrap_or(i64::MAX)),
        libraries,
    };
    info.encode(request, &mut context.answers.frames);
}
