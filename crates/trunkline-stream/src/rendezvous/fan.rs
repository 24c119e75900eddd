//! Creates endpoints with several peers, which the peers dial.

use std::sync::Arc;

use trunkline_net::LinkOptions as NetOptions;
use trunkline_types::DataType;

use super::{Plan, RealWorld};
use crate::directory::{Registration, register};
use crate::end::{Bell, BellLink};
use crate::error::StreamError;
use crate::fan_bytes::{
    Departed, FanInCore, FanInOptions, FanOutCore, FanOutOptions, Hub, LaneSettings, Lanes, Policy,
    Readers, Writers,
};
use crate::options::Options;
use crate::wait::Waiter;

pub(crate) async fn fan_out(
    waiter: &impl Waiter,
    url: &str,
    data_type: DataType,
    options: FanOutOptions,
) -> Result<FanOutCore, StreamError> {
    let mut plan = plan(url, data_type, options.options)?;
    let (bell_link, bell) = Bell::start()?;
    let quota = match options.policy {
        Policy::Slowest => None,
        Policy::Quota(elements) => Some(elements),
    };
    plan.link.drops = quota.is_some();
    let memory = plan.memory()?;
    let readers = Readers {
        cursors: memory.element_memory().cursors(),
        form: plan.link.form,
        quota,
        bell: bell.clone(),
        departed: Departed::default(),
    };
    let hub = Hub::new(readers, plan.lane_settings(options.readers_max), bell);
    let peers_min = options.readers_min.min(options.readers_max);
    let registration = plan
        .wait_for_peers(waiter, &hub, &bell_link, peers_min)
        .await?;
    Ok(FanOutCore {
        hub,
        bell_link,
        ring: memory.element_memory().producer(),
        form: plan.link.form,
        policy: options.policy,
        unsent: 0,
        longest_checked: 0,
        registration,
    })
}

pub(crate) async fn fan_in(
    waiter: &impl Waiter,
    url: &str,
    data_type: DataType,
    options: FanInOptions,
) -> Result<FanInCore, StreamError> {
    let plan = plan(url, data_type, options.options)?;
    let (bell_link, bell) = Bell::start()?;
    let writers = Writers::new(plan.shape, plan.is_preallocated(), bell.clone());
    let hub = Hub::new(writers, plan.lane_settings(options.writers_max), bell);
    let peers_min = options.writers_min.min(options.writers_max);
    let registration = plan
        .wait_for_peers(waiter, &hub, &bell_link, peers_min)
        .await?;
    Ok(FanInCore::new(hub, bell_link, registration))
}

fn plan(
    url: &str,
    data_type: DataType,
    options: Options,
) -> Result<Plan<'static, RealWorld>, StreamError> {
    if options.peer.is_some() || options.journal.is_some() {
        return Err(StreamError::MultiplePeers);
    }
    Plan::new(&RealWorld, url, data_type, options)
}

impl Plan<'_, RealWorld> {
    fn lane_settings(&self, lanes_max: usize) -> LaneSettings {
        LaneSettings {
            link: self.link.clone(),
            net: NetOptions {
                spin: self.options.spin,
                ..NetOptions::default()
            },
            is_checked: self.options.is_checked,
            lanes_max,
        }
    }

    /// Registers the name, and waits until `peers_min` peers have connected.
    async fn wait_for_peers<O: Lanes>(
        &self,
        waiter: &impl Waiter,
        hub: &Arc<Hub<O>>,
        bell_link: &BellLink,
        peers_min: usize,
    ) -> Result<Option<Registration>, StreamError> {
        let mut watch = hub.bell.watch();
        let Self {
            url,
            link,
            options,
            deadline,
            ..
        } = self;
        let registered = register(waiter, url, link, options, *deadline, hub.clone());
        let registration = registered.await?;
        while hub.len() < peers_min {
            if !watch.wait_for_ring(waiter, bell_link, *deadline).await {
                return Err(StreamError::NoPeer {
                    peer: None,
                    timeout: self.options.timeout.unwrap_or_default(),
                    last: None,
                });
            }
        }
        Ok(registration)
    }
}
