//! Connects two endpoints by their names (NS-09 to NS-19).
//!
//! Each endpoint registers its name, either with the engine of this machine or on a port of its own.
//! When a peer looks up the name, the peer's connection is handed over to the endpoint.
//!
//! An endpoint that names its peer is the active one: it looks the peer up in the directory of the
//! peer's host, or at the peer's own port, waits until the peer exists, and dials it.

mod acceptor;
mod fan;
mod journaled;
mod real_world;

use std::io;
use std::sync::Arc;

use trunkline_net::passing::Descriptors;
use trunkline_net::{Spin, StreamMemory, public_key};
use trunkline_proto::message::stream::{Incarnation, Until};
use trunkline_proto::stream::{ElementForm, LinkOptions, ReaderLink, Role, WriterLink};
use trunkline_ring::{RingShape, RingStart};
use trunkline_types::{DataType, StreamUrl, Tick};

use crate::bytes::{ConnectedEnd, ReaderCore, WriterCore};
use crate::directory::{Registration, own_address};
use crate::element::form;
use crate::end::{Idle, Login, ReaderEnd, StreamEndpoint, Target, WriterEnd};
use crate::error::StreamError;
use crate::handle::{EndpointHandle, Environment};
use crate::journal::disk::Disk;
use crate::journal::{Bounds, JournalError, JournalOptions};
use crate::options::Options;
use crate::properties::HasProperties;
use crate::wait::Waiter;

pub(crate) use fan::{fan_in, fan_out};
pub(crate) use real_world::RealWorld;

/// The environment in which an endpoint is created: this machine, or a simulation.
pub(crate) trait World: Sized {
    fn environment(&self) -> Environment;

    fn disk(&self, options: &JournalOptions) -> Result<Arc<dyn Disk>, JournalError>;

    /// Returns the bounds of the journal for an endpoint with a buffer of `bytes_max` bytes.
    fn bounds(&self, options: &JournalOptions, bytes_max: u64) -> Result<Bounds, JournalError>;

    /// Starts the endpoint's link, and registers its name.
    async fn start<S: HasProperties>(
        &self,
        waiter: &impl Waiter,
        plan: &Plan<'_, Self>,
        end: StreamEndpoint<S>,
        descriptors: &Descriptors,
    ) -> Result<(EndpointHandle<S>, Option<Registration>), StreamError>;
}

/// The parameters of an endpoint, checked before any file or connection is opened.
pub(crate) struct Plan<'w, W> {
    world: &'w W,
    pub(crate) url: StreamUrl,
    peer: Option<StreamUrl>,
    pub(crate) link: LinkOptions,
    shape: RingShape,
    /// Time until which creation waits for the peer; `None` means no limit.
    deadline: Option<Tick>,
    pub(crate) options: Options,
    /// The journal already identifies the peer, so creation does not wait for the peer.
    needs_no_peer: bool,
}

pub(crate) async fn writer(
    waiter: &impl Waiter,
    world: &impl World,
    url: &str,
    data_type: DataType,
    options: Options,
) -> Result<WriterCore, StreamError> {
    let plan = Plan::new(world, url, data_type, options)?;
    if let Some(journal) = plan.options.journal.clone() {
        return journaled::writer(waiter, plan, &journal).await;
    }
    let memory = plan.memory()?;
    let mut inner = WriterEnd::new(memory.element_memory().consumer());
    inner.idle = plan.idle(&memory);
    let link = WriterLink::writer(plan.link.clone(), world.environment().now());
    let connected = plan.connect(waiter, link, inner, Some(&memory)).await?;
    let ring = connected.memory_of_program(&memory).producer();
    Ok(WriterCore::new(connected, ring))
}

pub(crate) async fn reader(
    waiter: &impl Waiter,
    world: &impl World,
    url: &str,
    data_type: DataType,
    options: Options,
) -> Result<ReaderCore, StreamError> {
    let mut plan = Plan::new(world, url, data_type, options)?;
    if let Some(journal) = plan.options.journal.clone() {
        return journaled::reader(waiter, plan, &journal).await;
    }
    plan.link.drops = true;
    let memory = plan.memory()?;
    let mut inner = ReaderEnd::new(memory.element_memory().producer());
    inner.idle = plan.idle(&memory);
    let link = ReaderLink::reader(plan.link.clone(), world.environment().now());
    let connected = plan.connect(waiter, link, inner, Some(&memory)).await?;
    let ring = connected.memory_of_program(&memory).consumer();
    Ok(ReaderCore::new(connected, ring))
}

fn no_random(cause: io::Error) -> StreamError {
    StreamError::Random { cause }
}

impl<'w, W: World> Plan<'w, W> {
    fn new(
        world: &'w W,
        url: &str,
        data_type: DataType,
        options: Options,
    ) -> Result<Self, StreamError> {
        let environment = world.environment();
        let url = StreamUrl::parse(url)?;
        if own_address(url.host()).is_none() {
            let host = url.host().to_owned();
            return Err(StreamError::RemoteHost { host });
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
        // An endpoint that is dialled learns from the connection whether its peer is on another
        // machine.
        let is_remote = peer
            .as_ref()
            .is_some_and(|peer| own_address(peer.host()).is_none());
        let role = match peer {
            Some(_) => Role::Active,
            None => Role::Passive,
        };
        let link = LinkOptions {
            role,
            peer_url: peer.as_ref().map(StreamUrl::to_string).unwrap_or_default(),
            incarnation: Incarnation(environment.random().map_err(no_random)?),
            secret: environment.secret().map_err(no_random)?,
            form,
            capacity: shape.capacity(),
            bytes_max: shape.bytes_max() as u64,
            accepts_successor: options.accepts_successor,
            is_checked: options.is_checked.unwrap_or(is_remote),
            freed_at: Until::Durable,
            gone_after: options.gone_after,
            program: options.program.clone(),
            seed: environment.seed(),
            ..LinkOptions::fixed(&url.to_string(), data_type, 1, 1)
        };
        Ok(Self {
            url,
            peer,
            link,
            shape,
            deadline: environment.deadline(options.timeout),
            world,
            options,
            needs_no_peer: false,
        })
    }

    fn memory(&self) -> Result<Arc<StreamMemory>, StreamError> {
        self.memory_from(RingStart::default())
    }

    fn memory_from(&self, start: RingStart) -> Result<Arc<StreamMemory>, StreamError> {
        StreamMemory::create(self.shape, start, self.is_preallocated())
            .map_err(|cause| self.no_memory(cause))
    }

    fn no_memory(&self, cause: io::Error) -> StreamError {
        StreamError::Memory {
            bytes: self.shape.bytes_max(),
            cause,
        }
    }

    /// Returns true if the ring's memory is allocated at creation, and kept while the stream is idle.
    fn is_preallocated(&self) -> bool {
        self.options.preallocate || self.shape.element_bytes().is_some()
    }

    /// Returns the idle check that releases the ring's memory; `None` if the memory must be kept.
    fn idle(&self, memory: &Arc<StreamMemory>) -> Option<Idle> {
        (!self.is_preallocated()).then(|| Idle::new(memory.clone()))
    }

    /// Returns the peer to look up, for an endpoint that dials.
    fn target(&self) -> Result<Option<Target>, StreamError> {
        let Some(peer) = &self.peer else {
            return Ok(None);
        };
        let login = match &self.options.security {
            None => None,
            Some(security) => {
                let own_seed = self.world.environment().end_seed().map_err(no_random)?;
                Some(Login {
                    credentials: security.credentials.clone(),
                    own_key: public_key(&own_seed)?,
                    own_seed,
                })
            }
        };
        Ok(Some(Target {
            url: peer.to_string(),
            incarnation: self.link.incarnation,
            program: self.link.program.clone(),
            login,
        }))
    }

    /// Starts the link, registers the name, and waits for the peer.
    async fn connect<S: HasProperties>(
        &self,
        waiter: &impl Waiter,
        link: trunkline_proto::stream::Link<S::LinkRole>,
        inner: S,
        memory: Option<&Arc<StreamMemory>>,
    ) -> Result<ConnectedEnd<S>, StreamError> {
        let target = self.target()?;
        // The name is registered before the endpoint dials, so that the endpoint never dials with a
        // name that belongs to another endpoint.
        let descriptors = Descriptors::default();
        let end = StreamEndpoint::new(
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
        let started = self.world.start(waiter, self, end, &descriptors);
        let (link, registration) = started.await?;
        link.with(|end, _, _| end.start_dialling());
        let connected = link.wait(waiter, self.deadline, |end, _| {
            if end.is_ready() || self.needs_no_peer {
                return Some(Ok(()));
            }
            end.mismatch().map(|fault| Err(fault.clone().into()))
        });
        match connected.await {
            Some(Ok(())) => Ok(ConnectedEnd {
                link,
                registration,
                form: self.link.form,
                spin: Spin::new(self.options.spin),
            }),
            Some(Err(fault)) => Err(fault),
            None => Err(StreamError::NoPeer {
                peer: self.peer.clone().map(Box::new),
                timeout: self.options.timeout.unwrap_or_default(),
                last: link.with(|end, _, _| end.link.last_disconnect().cloned()),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_random_numbers_are_not_reported_as_missing_memory() {
        let error = no_random(io::ErrorKind::Unsupported.into());
        let text = error.to_string();
        assert!(text.contains("no random numbers"), "{text}");
        assert!(text.contains("getrandom"), "{text}");
        assert!(!text.contains("memory"), "{text}");
    }
}
