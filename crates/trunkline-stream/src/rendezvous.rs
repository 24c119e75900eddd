//! The rendezvous of two endpoints (NS-09 to NS-19).
//!
//! ```text
//!   named its peer?   this end    asks the directory at its peer's host (or the peer's own port)
//!                                 until the peer is there, and dials it: it is the active one
//!   always            its name    is registered: by the engine of this machine, or behind a port
//!                                 of its own; whoever asks for it is handed to it
//! ```

mod door;
mod fan;
mod journaled;
mod registration;

use std::io;
use std::sync::Arc;

use trunkline_net::passing::Descriptors;
use trunkline_net::{Dialler, Link, LinkOptions as NetOptions, Spin, StreamMemory, near};
use trunkline_proto::message::stream::{Incarnation, Until};
use trunkline_proto::stream::{ElementForm, LinkOptions, ReaderLink, Role, WriterLink};
use trunkline_ring::{ElementMemory, RingShape, RingStart};
use trunkline_types::{DataType, StreamUrl, Tick};

use crate::element::form;
use crate::end::{End, Idle, Inner, ReaderEnd, Target, WriterEnd};
use crate::error::StreamError;
use crate::held::Held;
use crate::listener::own_address;
use crate::machine::Machine;
use crate::options::{DIRECTORY_PORT, Options};
use crate::properties::Asked;
use crate::reader::ReaderCore;
use crate::wait::Waits;
use crate::writer::WriterCore;

pub(crate) use fan::{fan_in, fan_out};
pub(crate) use registration::Registration;

use door::Door;

/// An end that is connected to its peer.
pub(crate) struct Met<S: Inner + 'static> {
    pub(crate) link: Held<S>,
    pub(crate) registration: Option<Registration>,
    pub(crate) form: ElementForm,
    /// For waits on a ring that another process also uses.
    pub(crate) spin: Spin,
}

impl<S: Inner + 'static> Met<S> {
    /// The memory for the program's end of the ring: the shared one if there is one, otherwise
    /// `own`.
    fn memory_of_program(&self, own: &Arc<StreamMemory>) -> ElementMemory {
        self.link.with(|end, _, _| match end.inner.shared() {
            Some(shared) => shared.memory.element_memory(),
            None => own.element_memory().starting_at(end.start()),
        })
    }
}

/// The parameters of an endpoint, checked before anything is opened.
struct Plan {
    machine: Machine,
    url: StreamUrl,
    peer: Option<StreamUrl>,
    link: LinkOptions,
    shape: RingShape,
    until: Option<Tick>,
    options: Options,
    /// The journal knows the peer, so creation does not wait for it.
    is_met: bool,
}

/// Creates a writing end.
pub(crate) async fn writer(
    waits: &impl Waits,
    machine: &Machine,
    url: &str,
    data_type: DataType,
    options: Options,
) -> Result<WriterCore, StreamError> {
    let plan = Plan::new(machine, url, data_type, options)?;
    if let Some(journal) = plan.options.journal.clone() {
        return journaled::writer(waits, plan, &journal).await;
    }
    let memory = plan.memory()?;
    let mut inner = WriterEnd::new(memory.element_memory().consumer());
    inner.idle = plan.idle(&memory);
    let link = WriterLink::writer(plan.link.clone(), machine.now());
    let met = plan.meet(waits, link, inner, Some(&memory)).await?;
    let ring = met.memory_of_program(&memory).producer();
    Ok(WriterCore::new(met, ring))
}

/// Creates a reading end.
pub(crate) async fn reader(
    waits: &impl Waits,
    machine: &Machine,
    url: &str,
    data_type: DataType,
    options: Options,
) -> Result<ReaderCore, StreamError> {
    let mut plan = Plan::new(machine, url, data_type, options)?;
    if let Some(journal) = plan.options.journal.clone() {
        return journaled::reader(waits, plan, &journal).await;
    }
    plan.link.drops = true;
    let memory = plan.memory()?;
    let mut inner = ReaderEnd::new(memory.element_memory().producer());
    inner.idle = plan.idle(&memory);
    let link = ReaderLink::reader(plan.link.clone(), machine.now());
    let met = plan.meet(waits, link, inner, Some(&memory)).await?;
    let ring = met.memory_of_program(&memory).consumer();
    Ok(ReaderCore::new(met, ring))
}

fn no_random(cause: io::Error) -> StreamError {
    StreamError::Random { cause }
}

impl Plan {
    fn new(
        machine: &Machine,
        url: &str,
        data_type: DataType,
        options: Options,
    ) -> Result<Self, StreamError> {
        let url = StreamUrl::parse(url)?;
        if own_address(url.host()).is_none() {
            let host = url.host().to_owned();
            return Err(StreamError::NotHere { host });
        }
        let peer = options.peer.as_deref().map(StreamUrl::parse).transpose()?;
        let form = form(&data_type);
        let (bytes, shape) = match form {
            ElementForm::Fixed(size) => (
                size as usize,
                RingShape::fixed(size as usize, options.capacity),
            ),
            ElementForm::Variable => (
                options.bytes_max,
                RingShape::variable(options.bytes_max, options.capacity),
            ),
        };
        let shape = shape.ok_or(StreamError::Capacity {
            capacity: options.capacity,
            bytes,
        })?;
        // An end that is dialled learns it from the connection.
        let is_far = peer
            .as_ref()
            .is_some_and(|peer| own_address(peer.host()).is_none());
        let role = match peer {
            Some(_) => Role::Active,
            None => Role::Passive,
        };
        let link = LinkOptions {
            role,
            peer_url: peer.as_ref().map(StreamUrl::to_string).unwrap_or_default(),
            incarnation: Incarnation(machine.random().map_err(no_random)?),
            secret: machine.secret().map_err(no_random)?,
            form,
            capacity: shape.capacity(),
            bytes_max: shape.bytes_max() as u64,
            takes_successor: options.takes_successor,
            is_checked: options.is_checked.unwrap_or(is_far),
            freed_at: Until::Durable,
            gone_after: options.gone_after,
            program: options.program.clone(),
            seed: machine.seed(),
            ..LinkOptions::fixed(&url.to_string(), data_type, 1, 1)
        };
        Ok(Self {
            url,
            peer,
            link,
            shape,
            until: machine.deadline(options.timeout),
            machine: machine.clone(),
            options,
            is_met: false,
        })
    }

    fn memory(&self) -> Result<Arc<StreamMemory>, StreamError> {
        let is_touched = self.options.preallocate || self.shape.element_bytes().is_some();
        StreamMemory::create(self.shape, RingStart::default(), is_touched).map_err(|cause| {
            StreamError::Memory {
                bytes: self.shape.bytes_max(),
                cause,
            }
        })
    }

    /// Releases the ring's memory when idle; `None` if the memory must be kept.
    fn idle(&self, memory: &Arc<StreamMemory>) -> Option<Idle> {
        let is_kept = self.options.preallocate || self.shape.element_bytes().is_some();
        (!is_kept).then(|| Idle::new(memory.clone()))
    }

    /// Starts the link, registers the name, and waits for the peer.
    async fn meet<S: Asked + 'static>(
        &self,
        waits: &impl Waits,
        link: trunkline_proto::stream::Link<S::Half>,
        inner: S,
        memory: Option<&Arc<StreamMemory>>,
    ) -> Result<Met<S>, StreamError> {
        let target = self.peer.as_ref().map(|peer| Target {
            url: peer.to_string(),
            incarnation: self.link.incarnation,
            program: self.link.program.clone(),
        });
        // Registered before it dials: the directory must not see it under a name that belongs to
        // another endpoint.
        let descriptors = Descriptors::default();
        let end = End::new(
            link,
            inner,
            target,
            memory.cloned(),
            Some(descriptors.clone()),
        );
        // With a journal, data passes through the buffers of both ends.
        let may_share = self.options.shared_memory && !self.link.has_journal;
        let end = match may_share {
            true => end,
            false => end.without_sharing(),
        };
        let (link, registration) = match &self.machine {
            Machine::Real => self.start(waits, end, &descriptors).await?,
            #[cfg(feature = "sim")]
            Machine::Simulated(process) => self.simulate(process, end)?,
        };
        link.with(|end, _, _| end.start_dialling());
        let met = link.wait(waits, self.until, |end, _| {
            if end.is_ready() || self.is_met {
                return Some(Ok(()));
            }
            end.misfit().map(|fault| Err(fault.clone().into()))
        });
        match met.await {
            Some(Ok(())) => Ok(Met {
                link,
                registration,
                form: self.link.form,
                spin: Spin::new(self.options.spin),
            }),
            Some(Err(fault)) => Err(fault),
            None => Err(StreamError::NoPeer {
                timeout: self.options.timeout.unwrap_or_default(),
                last: link.with(|end, _, _| end.link.last_disconnect().cloned()),
            }),
        }
    }

    /// Starts the link, and registers the name.
    async fn start<S: Asked + 'static>(
        &self,
        waits: &impl Waits,
        end: End<S>,
        descriptors: &Descriptors,
    ) -> Result<(Held<S>, Option<Registration>), StreamError> {
        let net = NetOptions {
            spin: self.options.spin,
            ..NetOptions::default()
        };
        let link = Link::start(self.dialler(descriptors), end, net)?;
        let arrivals = Arc::new(Door {
            link: Arc::downgrade(&link),
            is_checked: self.options.is_checked,
        });
        let registration = self.register(waits, arrivals).await?;
        Ok((Held::Net(link), registration))
    }

    /// The same for a simulated process.
    #[cfg(feature = "sim")]
    fn simulate<S: Asked + 'static>(
        &self,
        process: &Arc<crate::sim::Process>,
        end: End<S>,
    ) -> Result<(Held<S>, Option<Registration>), StreamError> {
        let (seat, arrivals) = process.seat(end, self.options.is_checked);
        let Self { url, link, .. } = self;
        let host = process.host();
        let number = host
            .register_here(url, link.incarnation, &link.program, arrivals)
            .map_err(|fault| StreamError::Refused {
                code: fault.code,
                sentence: fault.sentence,
            })?;
        let registration = Registration::Simulated { host, number };
        Ok((Held::Simulated(seat), Some(registration)))
    }

    fn dialler(&self, descriptors: &Descriptors) -> Dialler {
        let sockets = self.options.sockets.as_deref();
        let reach = |host: &str, port| match self.options.tcp_only {
            true => Dialler::tcp(host, port),
            false => near::dialler(sockets, host, port).taking(descriptors.clone()),
        };
        match &self.peer {
            // This end only accepts connections.
            None => Dialler::pipe(|| Err(io::ErrorKind::Unsupported.into())),
            Some(peer) => match peer.port() {
                Some(port) => reach(peer.host(), port),
                None => reach(peer.host(), self.directory_port(peer)),
            },
        }
    }

    /// The port of the directory in which an endpoint is registered.
    fn directory_port(&self, url: &StreamUrl) -> u16 {
        let is_here = own_address(url.host()).is_some_and(|address| address.is_loopback());
        match is_here {
            true => self.options.directory_port,
            false => DIRECTORY_PORT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_without_random_numbers_is_not_one_without_memory() {
        let error = no_random(io::ErrorKind::Unsupported.into());
        let text = error.to_string();
        assert!(text.contains("no random numbers"), "{text}");
        assert!(text.contains("getrandom"), "{text}");
        assert!(!text.contains("memory"), "{text}");
    }
}
