//! The gate of a directory: every request passes here before it is carried out.
//!
//! Only `admit` creates an [`Admitted`] request, and [`DirectoryHost`](super::DirectoryHost) takes no
//! other, so no request reaches it around the gate.

use std::ops::Deref;
use std::sync::Arc;

use trunkline_proto::message::stream::directory::{Identity, Lookup, Register};
use trunkline_proto::{Fault, FaultCode, FrameKind};
use trunkline_types::StreamUrl;

/// What the program at the other end of a connection to a directory may do.
pub trait Gate: Send + Sync {
    /// Decides about a request of this kind that concerns the stream with this URL. The decision must
    /// not depend on the streams that exist.
    ///
    /// # Errors
    /// [`Fault`] for the program.
    fn pass(&self, kind: FrameKind, url: &StreamUrl) -> Result<(), Fault>;

    /// Returns true if the program may see that a stream with this URL exists.
    fn shows(&self, url: &StreamUrl) -> bool;

    /// Called when a request has been carried out, or was refused with this fault for a reason other than the
    /// decision of [`pass`](Self::pass): [`StreamRegister`](FrameKind::StreamRegister) when a name has been
    /// registered, and [`StreamHello`](FrameKind::StreamHello) when a connection has been passed to an endpoint.
    /// `url` is `None` if the program has not stated a valid name.
    fn note(&self, kind: FrameKind, url: Option<&StreamUrl>, refused: Option<&Fault>) {
        let _ = (kind, url, refused);
    }

    /// Returns the identity that the program has proved, as it is named in the audit trail; `None` if the
    /// directory must identify it by the user that the system reports.
    fn identity(&self) -> Identity {
        None
    }

    /// Returns with what and from where the program has logged in, in a form for
    /// [`guest`](Self::guest) of another directory of this engine; `None` if its rights cannot end.
    fn login(&self) -> Option<String> {
        None
    }

    /// Returns the gate of a peer that another directory of this engine admitted to the stream with this URL,
    /// before a restart: with its [`identity`](Self::identity) and [`login`](Self::login), as the endpoint of
    /// this gate reports them. Its rights have ended if they do not permit the stream now. `None` if they
    /// cannot end.
    fn guest(&self, url: &StreamUrl, identity: &str, login: &str) -> Option<Arc<dyn Gate>> {
        let _ = (url, identity, login);
        None
    }

    /// Returns true if [`has_ended`](Self::has_ended) can become true.
    fn may_end(&self) -> bool {
        false
    }

    /// Returns true if the rights with which the program connected are not valid any more. The
    /// connections between endpoints that they permitted must then end.
    fn has_ended(&self) -> bool {
        false
    }

    /// Returns true if the program cannot get the right to use this stream by connecting again: with the
    /// rights that its account has now, it may not use the stream, or it has no account any more. Asked
    /// only once [`has_ended`](Self::has_ended) is true.
    fn is_lost(&self, url: &StreamUrl) -> bool {
        let _ = url;
        false
    }
}

/// Permits everything. For the port of a program's own endpoints, which is for programs of the same user,
/// or insecure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenGate;

impl Gate for OpenGate {
    fn pass(&self, _: FrameKind, _: &StreamUrl) -> Result<(), Fault> {
        Ok(())
    }

    fn shows(&self, _: &StreamUrl) -> bool {
        true
    }
}

/// The gate of one connection.
pub(super) type SharedGate = Arc<dyn Gate>;

/// A request that names one stream.
pub(super) trait OnStream {
    const KIND: FrameKind;

    fn url(&self) -> &str;
}

impl OnStream for Register {
    const KIND: FrameKind = FrameKind::StreamRegister;

    fn url(&self) -> &str {
        &self.url
    }
}

impl OnStream for Lookup {
    const KIND: FrameKind = FrameKind::StreamLookup;

    fn url(&self) -> &str {
        &self.url
    }
}

/// A request that has passed the gate.
#[derive(Debug)]
pub(super) struct Admitted<R> {
    request: R,
    /// The URL in the request, without the host.
    url: StreamUrl,
}

impl<R> Admitted<R> {
    pub(super) fn url(&self) -> &StreamUrl {
        &self.url
    }
}

impl<R> Deref for Admitted<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.request
    }
}

/// Lets a request pass, or refuses it.
pub(super) fn admit<R: OnStream>(gate: &dyn Gate, request: R) -> Result<Admitted<R>, Fault> {
    let url = StreamUrl::parse(request.url())
        .map_err(|error| Fault::new(FaultCode::Malformed, error.to_string()))?
        .within_host();
    gate.pass(R::KIND, &url)?;
    Ok(Admitted { request, url })
}
