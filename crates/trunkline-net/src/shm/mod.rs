//! Shared memory beside a Unix socket: the same bytes, through two rings that both processes have
//! mapped.
//!
//! ```text
//!   dialler                                                     acceptor
//!   first bytes + file  ------------- socket ----------------->  maps it, says so in it
//!   bytes  ============ ring ==================================>
//!         <============ ring ==================================  bytes
//!   doorbell, hang-up  <------------- socket ----------------->  doorbell, hang-up
//! ```
//!
//! The dialler makes a sealed file without a name and sends it with its first bytes; an acceptor
//! that knows nothing of this reads the bytes, and the system closes the file. One that takes it
//! says so in the memory. When the dialler sees that, it sends through its ring; the acceptor
//! follows when it has read everything that came over the socket, so that the dialler never has to
//! ring behind bytes that nobody wants yet. Each end writes into the memory how many bytes went
//! over the socket before, so the other knows where to go on, and the stream has no seam.
//!
//! The socket stays. A byte on it is a *doorbell*: it wakes an end that said in the ring that it
//! sleeps, so two ends that are awake make no system call. That the other process has ended, at
//! whatever instruction, is the socket's end.
//!
//! What the other process writes into the memory is believed only as far as it can be true; bytes
//! are copied out before anybody looks at them.

mod mapping;
mod mirror;
pub(crate) mod passing;
mod receive;
mod send;
mod table;

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::Duration;

use trunkline_ring::Corrupt;
use trunkline_types::Tick;

use crate::halves::StreamSocket;
use crate::sync::{Arc, AtomicBool, AtomicU8, Mutex, Ordering, lock};
use crate::transport::{Source, Transport};
use crate::unix::Credentials;

use mapping::{Mapping, Way};
pub use mirror::StreamMemory;
use receive::{ReceiveStage, SharedReceive};
use send::{SendStage, SharedSend};
pub(crate) use table::TableAnswer;
use table::{Asked, Question};
pub use table::{LocalTable, create_table};

/// Doorbells read at once.
const BELLS: usize = 256;

/// Doorbells that wait to be read: there is at most one for each time that an end says it sleeps,
/// so more than this is not honest.
const BELLS_MAX: usize = 64 << 10;

/// Longest time that anybody waits for the answer to a question for a table. An acceptor of an
/// older version never answers.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// An end that gave no table is asked for one after this time.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Which end of a connection this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Offers shared memory; `demanded`: there is no connection without it.
    Dialler { demanded: bool },
    /// Takes what is offered.
    Acceptor,
}

/// What both halves of a transport know.
pub(crate) struct Local {
    stream: UnixStream,
    side: Side,
    state: AtomicU8,
    mapping: OnceLock<Arc<Mapping>>,
    /// The socket has ended: nobody makes room any more.
    gone: AtomicBool,
    /// What this end has sent over the socket.
    over_socket: Mutex<OverSocket>,
    /// Why there is no shared memory.
    why_not: OnceLock<String>,
    /// What the dialler knows of a table of last values.
    asked: Mutex<Asked>,
    /// The connection is not over, as far as this process knows.
    live: Arc<AtomicBool>,
}

#[derive(Default)]
struct OverSocket {
    /// Bytes of the stream.
    sent: u64,
    /// The rest goes through the ring.
    left: bool,
}

const UNDECIDED: u8 = 0;
const SHARED: u8 = 1;
const SOCKET_ONLY: u8 = 2;

impl Local {
    /// True once this end sends through shared memory.
    pub(crate) fn is_shared(&self) -> bool {
        self.state.load(Ordering::Relaxed) == SHARED
    }

    /// True while bytes may arrive through shared memory.
    pub(crate) fn may_share(&self) -> bool {
        self.state.load(Ordering::Relaxed) != SOCKET_ONLY
    }

    /// True once both ends have the memory, whether or not they have gone over to it yet.
    pub(crate) fn is_agreed(&self) -> bool {
        let mapping = self.mapping.get().filter(|_| self.may_share());
        mapping.is_some_and(|mapping| mapping.is_accepted())
    }

    /// Why the connection has stayed on its socket, when it is known.
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

    /// The connection stays on the socket.
    ///
    /// # Errors
    /// That was not wanted.
    fn decline(&self, why: String) -> io::Result<()> {
        self.state.store(SOCKET_ONLY, Ordering::Relaxed);
        let why = self.why_not.get_or_init(|| why);
        match self.side {
            Side::Dialler { demanded: true } => {
                let text = format!("there is no shared memory to the engine: {why}");
                Err(io::Error::new(ErrorKind::Unsupported, text))
            }
            _ => Ok(()),
        }
    }

    /// This end's bytes go through the ring from now on.
    fn leave_socket(&self, over_socket: &mut OverSocket) {
        if let Some(mapping) = self.mapping.get().filter(|_| !over_socket.left) {
            mapping.leave_socket(self.outgoing(), over_socket.sent);
            over_socket.left = true;
            self.state.store(SHARED, Ordering::Relaxed);
        }
    }

    /// A table of the other end's last values with a place for `index`: at most one question is on
    /// its way. An end that gives none that helps, or does not answer within [`ANSWER_MAX`], is
    /// asked again after [`ASK_AGAIN`], and nobody waits for it before.
    pub(crate) fn table(&self, index: u32, now: Tick) -> TableAnswer {
        // Before this end has left the socket a doorbell would be a byte of the stream.
        let Some(mapping) = self.mapping.get().filter(|_| self.is_shared()) else {
            return TableAnswer::None;
        };
        let mut asked = lock(&self.asked);
        if let Some(table) = asked.table.clone().filter(|table| table.serves(index)) {
            if asked.question == Question::Answered {
                asked.question = Question::None;
                asked.none_until = Tick::ZERO;
            }
            return TableAnswer::Here(table);
        }
        if now < asked.none_until {
            return TableAnswer::None;
        }
        let is_refused = mapping.table_answer(asked.count) == Some(false);
        let given_up = match asked.question {
            Question::Open if is_refused => Some(Question::None),
            Question::Open if now.since(asked.at) >= ANSWER_MAX => Some(Question::Late),
            // What came does not help the one who asked.
            Question::Answered if !asked.is_helped() => Some(Question::None),
            _ => None,
        };
        if let Some(question) = given_up {
            asked.question = question;
            asked.none_until = now.saturating_add(ASK_AGAIN);
            return TableAnswer::None;
        }
        if asked.question != Question::Open {
            asked.ask(index, now);
            mapping.ask_table(asked.count);
            self.ring_bell();
        }
        match self.live.load(Ordering::Acquire) {
            true => TableAnswer::Pending,
            false => TableAnswer::None,
        }
    }

    /// A file that came with a doorbell.
    fn take_table(&self, file: &OwnedFd) {
        let mut asked = lock(&self.asked);
        // Otherwise nobody asked.
        if matches!(asked.question, Question::Open | Question::Late) {
            asked.question = Question::Answered;
            // What cannot be mapped is none; whoever waits asks the engine itself.
            let table = LocalTable::accept(file, self.live.clone());
            asked.table = table.ok().map(Arc::new);
        }
    }

    /// Reads what came over the socket, and takes the table that a dialler has asked for.
    fn receive_bells(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.side == Side::Acceptor {
            return self.stream.receive(buffer);
        }
        let (count, file) = passing::receive_with(&self.stream, buffer)?;
        if let Some(file) = file {
            self.take_table(&file);
        }
        Ok(count)
    }

    /// The socket has ended, or not.
    fn set_gone(&self, gone: bool) {
        self.gone.store(gone, Ordering::Relaxed);
        if gone {
            self.live.store(false, Ordering::Release);
        }
    }

    /// The question for a table that the acceptor has not answered.
    pub(crate) fn table_question(&self) -> Option<u64> {
        let is_acceptor = self.side == Side::Acceptor;
        let mapping = self
            .mapping
            .get()
            .filter(|_| is_acceptor && self.is_shared());
        mapping?.table_question()
    }

    /// Answers it.
    pub(crate) fn answer_table(&self, question: u64, file: Option<BorrowedFd<'_>>) {
        let sent = file.is_some_and(|file| {
            // A socket without room is one whose other end reads no doorbells.
            passing::send_with(&self.stream, &[0], file).is_ok()
        });
        if let Some(mapping) = self.mapping.get() {
            mapping.answer_table(question, sent);
        }
        if !sent {
            self.ring_bell();
        }
    }

    /// Wakes the other end.
    fn ring_bell(&self) {
        // No room means that it has many to read already; that it has gone, the receive half finds
        // out.
        let _ = self.stream.send(&[0]);
    }
}

/// Turns a connected, non-blocking socket into a transport that goes over to shared memory where
/// both ends can.
///
/// # Errors
/// It is demanded, and this process cannot have it.
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
        gone: AtomicBool::new(false),
        over_socket: Mutex::new(OverSocket::default()),
        why_not: OnceLock::new(),
        asked: Mutex::default(),
        live: Arc::new(AtomicBool::new(true)),
    });
    let mut offer = None;
    if side != Side::Acceptor {
        match Mapping::create() {
            Ok((mapping, file)) => {
                let _first = local.mapping.set(mapping);
                offer = Some(file);
            }
            Err(error) => local.decline(format!("this process cannot make it: {error}"))?,
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

/// What came of a try at the socket.
enum Step {
    /// What the half answers.
    Moved(Option<usize>),
    /// The stream goes on in the ring.
    GoOn,
}

fn from_nonsense(Corrupt: Corrupt) -> io::Error {
    nonsense()
}

fn nonsense() -> io::Error {
    let text =
        "the other program wrote nonsense into the shared memory; it is broken, or means harm";
    io::Error::new(ErrorKind::InvalidData, text)
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
