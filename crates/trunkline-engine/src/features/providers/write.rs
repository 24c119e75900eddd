//! Writes that a provider carries out, and the register operations other than reading and setting
//! (LM-05, LM-06, LM-11): sending the value to the device, and asking the device for a fresh value.

use trunkline_types::Properties;

use super::Providers;
use super::pending::{DeviceRequest, ProviderTable, SendFailure, Waiting};
use crate::delivery::outbox::Wakes;
use crate::outcome::{Attempt, Refusal, WriteOutcome};
use crate::sync::Arc;
use crate::update::Encoded;
use crate::write::accept::Accepted;
use crate::write::{Call, EngineCore, Hook, Origin, View, WriteVerb};

impl Hook for Arc<ProviderTable> {
    fn begin(
        &self,
        core: &EngineCore,
        call: &Call<'_>,
        _: &mut Wakes,
    ) -> Option<Result<Attempt, Refusal>> {
        if call.write.origin != Origin::Client {
            return None;
        }
        let providers = View { core, table: self };
        match (call.write.verb, call.variable.provider_index()) {
            (WriteVerb::Put, Some(index)) => Some(providers.put(index, call)),
            (WriteVerb::Send | WriteVerb::Request, index) => Some(providers.order(index, call)),
            _ => None,
        }
    }
}

impl Providers<'_> {
    fn put(&self, index: usize, call: &Call<'_>) -> Result<Attempt, Refusal> {
        let properties = call.variable.properties();
        call.check(&properties)?;
        let mut accepted = Accepted::nothing();
        self.core.accept_write(call, &properties, &mut accepted)?;
        self.send_write(index, call, &properties, &accepted.update.value)
    }

    fn order(&self, index: Option<usize>, call: &Call<'_>) -> Result<Attempt, Refusal> {
        let properties = call.variable.properties();
        call.check(&properties)?;
        self.core.check_rules(call, false)?;
        let update = call.variable.update();
        match index {
            // Without a provider there is only the cell (LM-11).
            None => Ok(Attempt::Done(WriteOutcome::Unchanged(update.sequence))),
            Some(index) if call.write.verb == WriteVerb::Request => {
                self.send_request(index, call, DeviceRequest::Read)
            }
            Some(_) if update.sequence == 0 => Err(Refusal::NoValue),
            Some(index) => self.send_write(index, call, &properties, &update.value),
        }
    }

    /// Sends a write of a provided variable to its provider, outside all locks. The cell changes
    /// when the provider reports the value of the device.
    fn send_write(
        &self,
        index: usize,
        call: &Call<'_>,
        properties: &Properties,
        value: &Encoded,
    ) -> Result<Attempt, Refusal> {
        // The provider decides later, so the first client that requests the write counts as the
        // writer.
        self.core.check_rules(call, true)?;
        let value = value.try_decode(&properties.data_type)?;
        let raw = match &properties.scaling {
            Some(scaling) => scaling
                .to_raw(&value, properties.raw_type())
                .map_err(Refusal::Scaling)?,
            None => value,
        };
        self.send_request(index, call, DeviceRequest::Write(raw))
    }

    fn send_request(
        &self,
        index: usize,
        call: &Call<'_>,
        device_request: DeviceRequest,
    ) -> Result<Attempt, Refusal> {
        let variable = self.core.variable(call.variable.handle());
        let variable = variable.ok_or(Refusal::Gone)?;
        let waiting = Waiting {
            completion: call.write.completion.clone(),
            writer: match device_request {
                DeviceRequest::Write(_) => call.caller.session,
                DeviceRequest::Read => 0,
            },
            observer: call.observer.map(|observer| observer.detach()),
        };
        let now = call.moment.now;
        match self
            .table
            .send(index, now, &variable, device_request, waiting)
        {
            Ok(()) => Ok(Attempt::Pending),
            Err(SendFailure::Busy { provider, pending }) => {
                Err(Refusal::ProviderBusy { provider, pending })
            }
            Err(SendFailure::Gone { provider }) => Err(Refusal::ProviderGone { provider }),
        }
    }
}
