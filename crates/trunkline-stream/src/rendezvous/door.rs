//! Admits the connections that arrive for an endpoint.

use std::os::fd::OwnedFd;
use std::sync::Weak;

use trunkline_net::{Admitted, Link, Peer};

use crate::directory::Arrivals;
use crate::end::{End, Inner};
use crate::held::Held;
use crate::properties::{Asked, Properties};
use crate::registry;

/// Admits the connections that arrive for an endpoint.
pub(super) struct Door<S: Inner + 'static> {
    pub(super) link: Weak<Link<End<S>>>,
    /// Checksums on or off, if the program has chosen; `None`: only between machines.
    pub(super) is_checked: Option<bool>,
}

impl<S: Asked + 'static> Arrivals for Door<S> {
    fn arrive(&self, socket: OwnedFd, bytes: &[u8]) {
        let Some(link) = self.link.upgrade() else {
            return;
        };
        // A socket that cannot be used is closed; the peer dials again.
        let Ok(transport) = registry::transport_of(socket) else {
            return;
        };
        let is_local = matches!(transport.peer, Peer::Unix { .. });
        let is_far = matches!(transport.peer, Peer::Tcp(peer) if !peer.ip().is_loopback());
        let mut answer = Vec::new();
        let admitted = link.attach(transport, |end, now, _| {
            match end.admit(now, bytes, is_local) {
                Ok(first) => {
                    end.link.set_checked(self.is_checked.unwrap_or(is_far));
                    Admitted::Yes(first)
                }
                Err(refused) => {
                    answer = refused;
                    Admitted::No
                }
            }
        });
        if let Err(transport) = admitted {
            let _ = registry::refuse(transport, &answer);
        }
    }

    fn properties(&self) -> Option<Properties> {
        self.link
            .upgrade()
            .map(|link| S::properties(&Held::Net(link)))
    }
}
