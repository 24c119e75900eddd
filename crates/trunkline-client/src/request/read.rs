//! Reads the current readings of variables.

use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::read::Readings;
use trunkline_proto::{Disconnect, Fault, FaultCode, FrameKind};
use trunkline_types::Reading;

use super::{Answering, Ending, Exchange, Next, Prepared, Sending};
use crate::parts::Parts;
use crate::variables::reading_buffer::{ReadList, ReadingBuffer};

/// Requests current readings.
#[derive(Debug)]
pub struct Read(pub(crate) ReadList);

impl Exchange for Read {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Readings);
    const USES_HANDLES: bool = true;
    type End = Result<Vec<Result<Reading, Fault>>, Fault>;

    fn prepare(&mut self, parts: &mut Parts) -> Prepared {
        Prepared::Items(self.0.ask(&parts.base.variables))
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        sending.handles(HandlesBuilder::read, &self.0.sent, |(_, handle)| *handle);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        take_readings(&mut self.0, Readings::decode(answer.frame)?, answer)?;
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        Ok(self.0.finish(&ending.missing()).into_readings())
    }
}

/// As [`Read`], but fills a buffer of the program.
#[derive(Debug)]
pub struct ReadInto(pub(crate) Read);

impl Exchange for ReadInto {
    const ANSWERED_BY: Option<FrameKind> = Read::ANSWERED_BY;
    const USES_HANDLES: bool = true;
    type End = Result<ReadingBuffer, Fault>;

    fn prepare(&mut self, parts: &mut Parts) -> Prepared {
        self.0.prepare(parts)
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        self.0.encode(sending);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        self.0.answered(answer)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        Ok(self.0.0.finish(&ending.missing()))
    }
}

pub(super) fn take_readings(
    list: &mut ReadList,
    readings: Readings<'_>,
    answer: &mut Answering<'_, '_>,
) -> Result<(), Disconnect> {
    let arrival = answer.parts.base.connection.arrival(answer.now)?;
    list.set_epoch(arrival.epoch);
    let mut index = readings.first_index();
    for reading in readings {
        let reading = reading?;
        let sent_index = answer.item(&mut index)?;
        let Some(variable) = list.answered(sent_index) else {
            continue;
        };
        let variable = answer.parts.base.variables.get(variable);
        let data_type = variable.and_then(|variable| variable.data_type.as_ref());
        match (reading, data_type) {
            (Ok(record), Some(data_type)) => {
                let max_age = variable.and_then(|variable| variable.max_age);
                list.push(arrival.entry(&record, data_type, max_age)?);
            }
            // The program has closed the variable in the meantime.
            (Ok(_), None) => list.push_fault(FaultCode::UnknownHandle.into()),
            (Err(fault), _) => list.push_fault(fault.to_fault()),
        }
    }
    Ok(())
}
