//! Admits the connections that arrive for an endpoint.

use std::collections::BTreeSet;
use std::sync::Weak;

use trunkline_net::{Link, Transport};
use trunkline_proto::message::stream::directory::Ticket;

use crate::directory::{self, Arrival, Arrivals};
use crate::end::{EndpointRole, StreamEndpoint};
use crate::handle::EndpointHandle;
use crate::properties::{HasProperties, Properties};

pub(super) struct Acceptor<S: EndpointRole + 'static> {
    pub(super) link: Weak<Link<StreamEndpoint<S>>>,
    /// Turns checksums on or off; `None` turns them on only between machines.
    pub(super) is_checked: Option<bool>,
}

impl<S: HasProperties> Arrivals for Acceptor<S> {
    fn arrive(&self, transport: Transport, arrival: Arrival, bytes: &[u8]) {
        let Some(link) = self.link.upgrade() else {
            return;
        };
        let attached = directory::attach(&link, transport, arrival, bytes, self.is_checked);
        if let Err(rejected) = attached {
            let (transport, answer) = *rejected;
            directory::refuse(transport, &answer);
        }
    }

    fn revoke(&self, ticket: &Ticket, _: bool) {
        if let Some(link) = self.link.upgrade() {
            link.with(|end, _, _| end.revoke(ticket));
        }
    }

    fn tickets(&self) -> BTreeSet<Ticket> {
        let link = self.link.upgrade();
        let ticket = link.and_then(|link| link.with(|end, _, _| end.ticket()));
        ticket.into_iter().collect()
    }

    fn properties(&self) -> Option<Properties> {
        let link = self.link.upgrade()?;
        Some(Properties::of(&EndpointHandle::Net(link)))
    }
}
