//! Admits the connections that arrive for an endpoint.

use std::os::fd::OwnedFd;
use std::sync::Weak;

use trunkline_net::Link;

use crate::directory::{self, Arrivals};
use crate::end::{EndpointRole, StreamEndpoint};
use crate::handle::EndpointHandle;
use crate::properties::{HasProperties, Properties};

pub(super) struct Acceptor<S: EndpointRole + 'static> {
    pub(super) link: Weak<Link<StreamEndpoint<S>>>,
    /// Turns checksums on or off; `None` turns them on only between machines.
    pub(super) is_checked: Option<bool>,
}

impl<S: HasProperties> Arrivals for Acceptor<S> {
    fn arrive(&self, socket: OwnedFd, bytes: &[u8]) {
        // An unusable socket is closed, and the peer dials again.
        let (Some(link), Ok(transport)) = (self.link.upgrade(), directory::transport_of(socket))
        else {
            return;
        };
        let attached = directory::attach(&link, transport, bytes, self.is_checked);
        if let Err(rejected) = attached {
            let (transport, answer) = *rejected;
            directory::refuse(transport, &answer);
        }
    }

    fn properties(&self) -> Option<Properties> {
        let link = self.link.upgrade()?;
        Some(Properties::of(&EndpointHandle::Net(link)))
    }
}
