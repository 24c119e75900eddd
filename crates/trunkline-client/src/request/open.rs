//! Opens variables by name.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::message::open::{
    OpenBuilder, OpenOptions as WireOpenOptions, OpenTerms, Opened as OpenedFrame, OpenedVariable,
};
use trunkline_proto::{Disconnect, Fault, FaultCode, FaultRef, FrameKind};
use trunkline_types::name::NAME_BYTES_MAX;
use trunkline_types::{Access, Tick};

use super::{Answering, Ending, Exchange, Next, Page, Prepared, Sending, close_quietly};
use crate::answer::Opened;
use crate::options::{Need, OpenOptions};
use crate::parts::Parts;
use crate::variables::{VariableRef, Variables};

#[derive(Debug)]
pub struct Open {
    pub(crate) page: Page<Opened>,
    pub(crate) options: OpenOptions,
}

impl Exchange for Open {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Opened);
    type End = Result<Vec<Result<Opened, Fault>>, Fault>;

    fn prepare(&mut self, parts: &mut Parts) -> Prepared {
        Prepared::Items(
            self.page
                .ask(|variable| check_name(&parts.base.variables, variable)),
        )
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let terms = OpenTerms {
            options: WireOpenOptions {
                read: self.options.include_readings,
                describe: self.options.describe,
            },
            subscribe: None,
        };
        send_names(&terms, sending, |_, index| Some(self.page.sent(index)?.1));
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let options = self.options;
        take_opened(answer, |parts, now, index, opened| {
            if let Some((item, variable)) = self.page.sent(index) {
                let result = note_opened(parts, now, variable, opened)?;
                let result = result.and_then(|opened| check_access(opened, options));
                self.page.set(item, result);
            }
            Ok(())
        })
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        let missing = ending.missing();
        let variables = self.page.variables.clone();
        let results = self.page.finish(&missing);
        let Ending {
            parts,
            requests,
            wanted,
            ..
        } = ending;
        let base = &mut parts.base;
        let mut unneeded = Vec::new();
        for (variable, result) in variables.iter().zip(&results) {
            if result.is_err() {
                base.variables.release(*variable);
                continue;
            }
            base.variables.count_opening(*variable);
            if !wanted {
                unneeded.push(*variable);
            }
        }
        close_quietly(base, requests, &unneeded);
        Ok(results)
    }
}

/// Checks the length of a name before it is sent. Returns 0 as the handle, because an OPEN frame
/// contains names instead of handles.
pub(super) fn check_name(variables: &Variables, variable: VariableRef) -> Result<u32, Fault> {
    let bytes = variables
        .get(variable)
        .map_or(0, |variable| variable.name.len());
    if bytes <= NAME_BYTES_MAX {
        return Ok(0);
    }
    let sentence = format!("the name has {bytes} bytes; {NAME_BYTES_MAX} is the limit");
    Err(Fault::new(FaultCode::BadName, sentence))
}

/// Appends an OPEN frame. `variable` returns the variable of the sent item with this index.
pub(super) fn send_names(
    terms: &OpenTerms,
    sending: &mut Sending<'_>,
    variable: impl Fn(&Parts, u32) -> Option<VariableRef>,
) {
    let parts = &*sending.parts;
    let mut frame = OpenBuilder::begin(sending.out, sending.number, terms);
    while *sending.sent < sending.total && frame.len_bytes() < sending.page {
        let opened = variable(parts, *sending.sent);
        let opened = opened.and_then(|variable| parts.base.variables.get(variable));
        frame.push(&opened.map_or("", |variable| &*variable.name).as_bytes());
        *sending.sent += 1;
    }
    frame.finish(*sending.sent < sending.total);
}

type OpenedItem<'a> = Result<OpenedVariable<'a>, FaultRef<'a>>;

/// Processes an OPENED frame. `take` receives each item with its index among the sent items.
pub(super) fn take_opened(
    answer: &mut Answering<'_, '_>,
    mut take: impl FnMut(&mut Parts, Tick, u32, OpenedItem<'_>) -> Result<(), Disconnect>,
) -> Result<Next, Disconnect> {
    let opened = OpenedFrame::decode(answer.frame)?;
    let mut index = opened.first_index();
    for item in opened {
        let item = item?;
        let item_index = answer.item(&mut index)?;
        take(answer.parts, answer.now, item_index, item)?;
    }
    Ok(Next::Settle)
}

/// Records the engine's answer about one name.
pub(super) fn note_opened(
    parts: &mut Parts,
    now: Tick,
    variable: VariableRef,
    item: OpenedItem<'_>,
) -> Result<Result<Opened, Fault>, Disconnect> {
    let opened = match item {
        Ok(opened) => opened,
        Err(fault) => {
            let fault = fault.to_fault();
            parts.base.variables.refused(variable, &fault);
            return Ok(Err(fault));
        }
    };
    let OpenedVariable {
        handle,
        data_type,
        access,
        reading,
        properties,
    } = opened;
    parts
        .base
        .variables
        .opened(variable, handle, &data_type, access);
    if let Some(properties) = &properties {
        note_max_age(parts, variable, properties.max_age);
    }
    let reading = match reading.filter(|_| access != Access::WriteOnly) {
        Some(record) => {
            let known = parts.base.variables.get(variable);
            let arrival = parts.base.connection.arrival(now)?;
            let max_age = known.and_then(|variable| variable.max_age);
            let entry = arrival.entry(&record, &data_type, max_age)?;
            Some(entry.into_reading(arrival.epoch))
        }
        None => None,
    };
    Ok(Ok(Opened {
        variable,
        data_type,
        access,
        reading,
        properties: properties.map(Arc::new),
    }))
}

/// Applies the maximum age from newly received properties to the variable's items.
fn note_max_age(parts: &mut Parts, variable: VariableRef, max_age: Option<Duration>) {
    let Some(known) = parts.base.variables.get_mut(variable) else {
        return;
    };
    known.max_age = max_age;
    for (remote, item) in known.items.iter() {
        if let Some(item) = parts.subscriptions.remote.item_mut(*remote, *item) {
            item.max_age = max_age;
        }
    }
}

/// Checks that the variable permits the access that the program needs.
fn check_access(opened: Opened, options: OpenOptions) -> Result<Opened, Fault> {
    let fault = |code: FaultCode| Err(Fault::from(code));
    match opened.access {
        Access::ReadOnly if options.writing == Need::Required => fault(FaultCode::NotWritable),
        Access::WriteOnly if options.reading == Need::Required => fault(FaultCode::NotReadable),
        _ => Ok(Opened {
            access: used_access(opened.access, options)?,
            ..opened
        }),
    }
}

/// Returns the access that this opening uses, which may be a part of the variable's access.
fn used_access(access: Access, options: OpenOptions) -> Result<Access, Fault> {
    let reads = access != Access::WriteOnly && options.reading != Need::None;
    let writes = access != Access::ReadOnly && options.writing != Need::None;
    match (reads, writes) {
        (true, true) => Ok(Access::ReadWrite),
        (true, false) => Ok(Access::ReadOnly),
        (false, true) => Ok(Access::WriteOnly),
        (false, false) => {
            let sentence = "the variable's `access` does not permit the requested operations; open \
                            the variable with other options";
            Err(Fault::new(FaultCode::Denied, sentence))
        }
    }
}
