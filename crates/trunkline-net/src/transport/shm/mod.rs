//! Shared memory in addition to a Unix socket: the same byte stream, through two rings that both
//! processes have mapped.
//!
//! ```text
//!   dialler                                                     acceptor
//!   first bytes + file  ------------- socket ----------------->  maps it, sets a flag in it
//!   bytes  ============ ring ==================================>
//!         <============ ring ==================================  bytes
//!   doorbell, hang-up  <------------- socket ----------------->  doorbell, hang-up
//! ```
//!
//! The dialler creates a sealed anonymous file and sends it with its first bytes. An acceptor
//! without support for this reads the bytes, and the system closes the file. An acceptor that maps
//! the file announces that in the memory. When the dialler sees the announcement, it sends through
//! its ring. The acceptor does the same after it has read everything that came over the socket, so
//! the dialler never has to ring for bytes that the acceptor cannot use yet. Each end writes into
//! the memory how many bytes it had sent over the socket, so the other end knows where to continue,
//! and the stream continues without a gap.
//!
//! The socket stays open. A byte on it is a *doorbell*: it wakes an end that has announced in the
//! ring that it sleeps, so two ends that are awake make no system call. The end of the socket shows
//! that the other process has ended, even if it was killed.
//!
//! Values that the other process writes into the memory are checked for plausibility; bytes are
//! copied out before they are interpreted.

mod halves;
mod mapping;
mod mirror;
pub(crate) mod passing;
mod sealed_file;
mod table;

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::Duration;

use trunkline_ring::Corrupt;
use trunkline_types::Tick;

use crate::sync::{Arc, AtomicBool, AtomicU8, Mutex, Ordering, lock};
use crate::transport::halves::StreamSocket;
use crate::transport::unix::Credentials;
use crate::transport::{Source, Transport};

use halves::{ReceiveStage, SendStage, SharedReceive, SharedSend};
use mapping::{Mapping, Way};
pub use mirror::StreamMemory;
pub(crate) use table::TableAnswer;
pub use table::{LocalTable, create_table};
use table::{RequestState, TableRequest};

/// Maximum number of doorbells that one read takes from the socket.
const DOORBELLS_PER_READ: usize = 256;

/// Maximum number of doorbells waiting to be read. A well-behaved peer sends at most one each time
/// this end announces that it sleeps, so a larger number means a hostile peer.
const DOORBELLS_MAX: usize = 64 << 10;

/// Maximum time to wait for the answer to a table request. An acceptor of an older version never
/// answers.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Time after which a request is repeated to an end that provided no table.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// The role of an end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Offers shared memory. If it is `demanded`, the connection fails without it.
    Dialler { demanded: bool },
    /// Accepts what is offered.
    Acceptor,
}

/// The state shared by both halves of a transport.
pub(crate) struct Local {
    stream: UnixStream,
    side: Side,
    state: AtomicU8,
    mapping: OnceLock<Arc<Mapping>>,
    /// The socket has ended, so the peer will not read any more.
    peer_gone: AtomicBool,
    /// The progress of this end's output over the socket.
    over_socket: Mutex<OverSocket>,
    /// The reason why there is no shared memory.
    why_not: OnceLock<String>,
    /// State of the dialler's requests for a table of last values.
    request: Mutex<TableRequest>,
    /// True until this process knows that the connection is over.
    live: Arc<AtomicBool>,
}

#[derive(Default)]
struct OverSocket {
    /// Number of bytes of the stream sent over the socket.
    sent: u64,
    /// All further bytes go through the ring.
    left: bool,
}

const UNDECIDED: u8 = 0;
const SHARED: u8 = 1;
const SOCKET_ONLY: u8 = 2;

impl Local {
    /// Returns true once this end sends through shared memory.
    pub(crate) fn is_shared(&self) -> bool {
        self.state.load(Ordering::Relaxed) == SHARED
    }

    /// Returns true while bytes may arrive through shared memory.
    pub(crate) fn may_share(&self) -> bool {
        self.state.load(Ordering::Relaxed) != SOCKET_ONLY
    }

    /// Returns true once both ends have mapped the memory, even if they do not use it yet.
    pub(crate) fn is_agreed(&self) -> bool {
        let mapping = self.mapping.get().filter(|_| self.may_share());
        mapping.is_some_and(|mapping| mapping.is_accepted())
    }

    /// Returns the reason why the connection has stayed on its socket, if known.
    pub(crate) fn why_not(&self) -> Option<&str> {
        self.why_not.get().map(String::as_str)
    }

    fn ways(&self) -> (Way, Way) {
        match self.side {
            Side::Dialler { .. } => (Way::ToAcceptor, Way::ToDialler),
            Side::Acceptor => (Way::ToDialler, Way::ToAcceptor),
        }
    }

    fn incoming(&self) -> Way {
        self.ways().1
    }

    fn outgoing(&self) -> Way {
        self.ways().0
    }

    /// Keeps the connection on the socket.
    ///
    /// # Errors
    /// Shared memory was demanded.
    fn decline(&self, why: String) -> io::Result<()> {
        self.state.store(SOCKET_ONLY, Ordering::Relaxed);
        let why = self.why_not.get_or_init(|| why);
        match self.side {
            Side::Dialler { demanded: true } => {
                let text = format!("no shared memory with the engine: {why}");
                Err(io::Error::new(ErrorKind::Unsupported, text))
            }
            _ => Ok(()),
        }
    }

    /// Switches this end's bytes to the ring.
    fn leave_socket(&self, over_socket: &mut OverSocket) {
        if let Some(mapping) = self.mapping.get().filter(|_| !over_socket.left) {
            mapping.leave_socket(self.outgoing(), over_socket.sent);
            over_socket.left = true;
            self.state.store(SHARED, Ordering::Relaxed);
        }
    }

    /// Returns a table of the other end's last values that has a slot for `index`. At most one
    /// request is open. If the other end provides no suitable table, or does not answer within
    /// [`ANSWER_MAX`], the request is repeated after [`RETRY_AFTER`]; until then no caller waits.
    pub(crate) fn table(&self, index: u32, now: Tick) -> TableAnswer {
        // Before this end has left the socket a doorbell would be a byte of the stream.
        let Some(mapping) = self.mapping.get().filter(|_| self.is_shared()) else {
            return TableAnswer::None;
        };
        let mut request = lock(&self.request);
        if let Some(table) = request.table.clone().filter(|table| table.serves(index)) {
            if request.state == RequestState::Answered {
                request.state = RequestState::None;
                request.retry_at = Tick::ZERO;
            }
            return TableAnswer::Here(table);
        }
        if now < request.retry_at {
            return TableAnswer::None;
        }
        let is_refused = mapping.table_answer(request.count) == Some(false);
        let given_up = match request.state {
            RequestState::Open if is_refused => Some(RequestState::None),
            RequestState::Open if now.since(request.sent_at) >= ANSWER_MAX => {
                Some(RequestState::Late)
            }
            // The received table has no slot for the requested index.
            RequestState::Answered if !request.has_requested_slot() => Some(RequestState::None),
            _ => None,
        };
        if let Some(state) = given_up {
            request.state = state;
            request.retry_at = now.saturating_add(RETRY_AFTER);
            return TableAnswer::None;
        }
        if request.state != RequestState::Open {
            request.start(index, now);
            mapping.request_table(request.count);
            self.ring_doorbell();
        }
        match self.live.load(Ordering::Acquire) {
            true => TableAnswer::Pending,
            false => TableAnswer::None,
        }
    }

    /// Handles a file that came with a doorbell.
    fn take_table(&self, file: &OwnedFd) {
        let mut request = lock(&self.request);
        // Otherwise the file was not requested.
        if matches!(request.state, RequestState::Open | RequestState::Late) {
            request.state = RequestState::Answered;
            // A file that cannot be mapped is treated as no table; the caller then asks the engine
            // itself.
            let table = LocalTable::accept(file, self.live.clone());
            request.table = table.ok().map(Arc::new);
        }
    }

    /// Reads from the socket, and accepts the table that a dialler has requested.
    fn receive_doorbells(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.side == Side::Acceptor {
            return self.stream.receive(buffer);
        }
        let (count, file) = passing::receive_with(&self.stream, buffer)?;
        if let Some(file) = file {
            self.take_table(&file);
        }
        Ok(count)
    }

    /// Records whether the socket has ended.
    fn set_peer_gone(&self, peer_gone: bool) {
        self.peer_gone.store(peer_gone, Ordering::Relaxed);
        if peer_gone {
            self.live.store(false, Ordering::Release);
        }
    }

    /// Returns the number of a table request that the acceptor has not answered.
    pub(crate) fn table_request(&self) -> Option<u64> {
        let is_acceptor = self.side == Side::Acceptor;
        let mapping = self
            .mapping
            .get()
            .filter(|_| is_acceptor && self.is_shared());
        mapping?.table_request()
    }

    /// Answers table request `number`.
    pub(crate) fn answer_table(&self, number: u64, file: Option<BorrowedFd<'_>>) {
        let sent = file.is_some_and(|file| {
            // The socket has no room only if the other end does not read its doorbells.
            passing::send_with(&self.stream, &[0], file).is_ok()
        });
        if let Some(mapping) = self.mapping.get() {
            mapping.answer_table(number, sent);
        }
        if !sent {
            self.ring_doorbell();
        }
    }

    /// Wakes the other end.
    fn ring_doorbell(&self) {
        // If there is no room, many doorbells are already waiting to be read. The receive half
        // notices if the other end is gone.
        let _ = self.stream.send(&[0]);
    }
}

/// Turns a connected, non-blocking socket into a transport that switches to shared memory if both
/// ends can.
///
/// # Errors
/// Shared memory is demanded, and this process cannot provide it.
pub(crate) fn local_transport(
    stream: UnixStream,
    peer: Credentials,
    side: Side,
) -> io::Result<Transport> {
    let local = Arc::new(Local {
        stream,
        side,
        state: AtomicU8::new(UNDECIDED),
        mapping: OnceLock::new(),
        peer_gone: AtomicBool::new(false),
        over_socket: Mutex::new(OverSocket::default()),
        why_not: OnceLock::new(),
        request: Mutex::default(),
        live: Arc::new(AtomicBool::new(true)),
    });
    let mut offer = None;
    if side != Side::Acceptor {
        match Mapping::create() {
            Ok((mapping, file)) => {
                let _first = local.mapping.set(mapping);
                offer = Some(file);
            }
            Err(error) => local.decline(format!("this process cannot create it: {error}"))?,
        }
    }
    Ok(Transport {
        peer: peer.into(),
        source: Source::local(local.clone()),
        receive: Box::new(SharedReceive {
            local: local.clone(),
            received: 0,
            stage: ReceiveStage::Socket,
        }),
        send: Box::new(SharedSend {
            local,
            stage: SendStage::Socket(offer),
        }),
    })
}

impl AsFd for Local {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The result of an attempt to use the socket.
enum Step {
    /// The result to return to the caller.
    Moved(Option<usize>),
    /// The stream continues in the ring.
    Continue,
}

fn corrupt_error(Corrupt: Corrupt) -> io::Error {
    invalid_data()
}

fn invalid_data() -> io::Error {
    let text =
        "the other program wrote invalid data into the shared memory; it is faulty or hostile";
    io::Error::new(ErrorKind::InvalidData, text)
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
