//! The codes of faults that engines and peers report, with the numbers of the network protocol. The names and
//! sentences are those of `trunkline::types::FaultCode`; a test in `errors` compares them.

use crate::errors::tl_status;

/// No variable has this name; check its spelling with `trunkline find`.
pub const TL_FAULT_UNKNOWN_NAME: tl_status = 1;
/// The text is not a legal name; the sentence names the broken rule.
pub const TL_FAULT_BAD_NAME: tl_status = 2;
/// The text is not a legal pattern; the sentence names the broken rule.
pub const TL_FAULT_BAD_PATTERN: tl_status = 3;
/// The variable is write-only; its access type forbids reading.
pub const TL_FAULT_NOT_READABLE: tl_status = 4;
/// The variable is read-only for clients; its access type allows only its source to write it.
pub const TL_FAULT_NOT_WRITABLE: tl_status = 5;
/// The caller has no right to do this; ask the engine's administrator.
pub const TL_FAULT_DENIED: tl_status = 6;
/// The value has a type other than the variable's; send a value of the variable's type.
pub const TL_FAULT_WRONG_TYPE: tl_status = 7;
/// The value is outside the variable's range; the caller must send one inside it.
pub const TL_FAULT_OUT_OF_RANGE: tl_status = 8;
/// The value's bytes are not a legal value of the variable's type; the caller is at fault.
pub const TL_FAULT_INVALID_VALUE: tl_status = 9;
/// The value or request is longer than a declared limit; the sentence names the limit.
pub const TL_FAULT_TOO_LARGE: tl_status = 10;
/// A limit of the engine or session is reached; close something or raise the limit.
pub const TL_FAULT_LIMIT_REACHED: tl_status = 11;
/// The variable's library is stopped; start it, then try again.
pub const TL_FAULT_LIBRARY_STOPPED: tl_status = 12;
/// The variable was removed, or replaced by one of another type; open it again by name.
pub const TL_FAULT_GONE: tl_status = 13;
/// The handle was never opened on this connection or is of an earlier epoch; open it by name.
pub const TL_FAULT_UNKNOWN_HANDLE: tl_status = 14;
/// No subscription of this session has this number; the client is at fault.
pub const TL_FAULT_UNKNOWN_SUBSCRIPTION: tl_status = 15;
/// A newer value already exists; the sample was not stored.
pub const TL_FAULT_LATE: tl_status = 16;
/// The variable's provider is gone; nothing can be written until it is back.
pub const TL_FAULT_PROVIDER_GONE: tl_status = 17;
/// The variable's provider refused; the sentence is the provider's.
pub const TL_FAULT_PROVIDER_REFUSED: tl_status = 18;
/// No answer arrived in time; it is unknown whether the write was carried out.
pub const TL_FAULT_TIMED_OUT: tl_status = 19;
/// A subscriber's buffer is full, and this write did not wait for it; try again.
pub const TL_FAULT_WOULD_BLOCK: tl_status = 20;
/// The variable is not at the position the writer expected; read it again, then decide.
pub const TL_FAULT_CONFLICT: tl_status = 21;
/// Another writer holds the variable; the sentence names it.
pub const TL_FAULT_LEASED: tl_status = 22;
/// The subscription's bound was reached before it was read; open it again from its position.
pub const TL_FAULT_OVERRUN: tl_status = 23;
/// The position is of another epoch: the engine was restarted; start from the current value.
pub const TL_FAULT_EPOCH_CHANGED: tl_status = 24;
/// The request is not valid; the peer that sent it is at fault.
pub const TL_FAULT_BAD_REQUEST: tl_status = 25;
/// The engine cannot do this, or the feature was not agreed in the hello.
pub const TL_FAULT_NOT_SUPPORTED: tl_status = 26;
/// The versions of the two programs are incompatible; update the older program.
pub const TL_FAULT_VERSION_MISMATCH: tl_status = 27;
/// The engine cannot accept another connection now; try again after the time that it names.
pub const TL_FAULT_OVERLOADED: tl_status = 28;
/// The engine is stopping; it may return soon.
pub const TL_FAULT_SHUTTING_DOWN: tl_status = 29;
/// The peer was silent past the deadline: its machine, its program or the network stalled.
pub const TL_FAULT_PEER_SILENT: tl_status = 30;
/// The peer sent bytes that violate the protocol; its program is at fault.
pub const TL_FAULT_MALFORMED: tl_status = 31;
/// An internal fault of the engine; report it with the sentence.
pub const TL_FAULT_INTERNAL: tl_status = 32;
/// No library of this name is deployed; `trunkline ls` lists the deployed libraries.
pub const TL_FAULT_UNKNOWN_LIBRARY: tl_status = 33;
/// A library of this name is already deployed; replace it, or undeploy it first.
pub const TL_FAULT_LIBRARY_EXISTS: tl_status = 34;
/// The library's definition has an error; the sentence names the place and the error.
pub const TL_FAULT_BAD_LIBRARY: tl_status = 35;
/// The item is still in use by subscriptions; the sentence gives their number.
pub const TL_FAULT_IN_USE: tl_status = 36;
/// The engine's store cannot save the change, so nothing was changed; the sentence gives the
/// reason.
pub const TL_FAULT_STORE_FAILED: tl_status = 37;
/// The variable is forced to a value; unforce it, then write again.
pub const TL_FAULT_FORCED: tl_status = 38;
/// The variable is not forced, so there is nothing to unforce.
pub const TL_FAULT_NOT_FORCED: tl_status = 39;
/// The variable has not been written yet; set it first.
pub const TL_FAULT_NO_VALUE: tl_status = 40;
/// The variable's provider does not know whether the write was carried out; the sentence is the
/// provider's.
pub const TL_FAULT_PROVIDER_UNSURE: tl_status = 41;
/// A provider of this name is already running; give this one another name, or stop the other.
pub const TL_FAULT_NAME_TAKEN: tl_status = 42;
/// This connection is not the source of the variable; only its own provider can publish it.
pub const TL_FAULT_NOT_ITS_PROVIDER: tl_status = 43;
/// The engine does not know this client, or its proof is wrong; join the engine, or log in again.
pub const TL_FAULT_NOT_AUTHENTICATED: tl_status = 44;
/// The rights of the client were changed; it reconnects automatically.
pub const TL_FAULT_RIGHTS_CHANGED: tl_status = 45;
/// The configuration files have an error, so nothing was changed; the sentence names the place.
pub const TL_FAULT_BAD_CONFIGURATION: tl_status = 46;
/// The variable cannot take part in a group write; write it alone, or set it.
pub const TL_FAULT_NOT_GROUPABLE: tl_status = 50;
/// Another member of the group was refused, so none was written; see the fault of that member.
pub const TL_FAULT_GROUP_REFUSED: tl_status = 51;
/// The variable has a single writer, which is another program; the sentence names it.
pub const TL_FAULT_SINGLE_WRITER: tl_status = 52;
/// This session does not hold the lease, or no longer holds it; take it again.
pub const TL_FAULT_NOT_LEASED: tl_status = 53;
/// The group contains the variable twice; the caller must name it once.
pub const TL_FAULT_TWICE_IN_GROUP: tl_status = 54;
/// Another client controls the folder of the variable; the sentence names it. Ask for control.
pub const TL_FAULT_CONTROLLED: tl_status = 55;
/// This client does not control the folder, and does not wait for it; take control first.
pub const TL_FAULT_NOT_CONTROLLED: tl_status = 56;
/// Variables have no such field; the sentence lists the fields.
pub const TL_FAULT_UNKNOWN_FIELD: tl_status = 60;
/// The engine's memory for waiting updates is full; try again later or subscribe with `latest`.
pub const TL_FAULT_MEMORY_FULL: tl_status = 61;
/// A newer value already exists; the sample was only recorded in the history.
pub const TL_FAULT_LATE_RECORDED: tl_status = 62;
/// The variable is an alias whose target is not deployed or incompatible; see `trunkline why`.
pub const TL_FAULT_ALIAS_UNBOUND: tl_status = 80;
/// No stream endpoint has this name now; the other program must create it.
pub const TL_FAULT_UNKNOWN_ENDPOINT: tl_status = 100;
/// A stream endpoint of this name already exists; give this one another name.
pub const TL_FAULT_ENDPOINT_TAKEN: tl_status = 101;
/// The endpoint's name is part of another endpoint's path, or the reverse; choose another.
pub const TL_FAULT_ENDPOINT_NESTED: tl_status = 102;
/// The two endpoints have different element types; create both with the same type.
pub const TL_FAULT_STREAM_TYPE: tl_status = 103;
/// Both endpoints write, or both read; one must be the writer and the other the reader.
pub const TL_FAULT_STREAM_DIRECTION: tl_status = 104;
/// The endpoint expects another peer; correct the URL that names the peer.
pub const TL_FAULT_STREAM_PEER: tl_status = 105;
/// The endpoint is already connected; it accepts only one peer.
pub const TL_FAULT_STREAM_CONNECTED: tl_status = 106;
/// The peer endpoint was re-created after it was connected; re-create this endpoint as well.
pub const TL_FAULT_STREAM_RESTARTED: tl_status = 107;
/// The two endpoints cannot continue the stream: elements between them are lost.
pub const TL_FAULT_STREAM_DATA_LOST: tl_status = 108;
/// A newer connection of this endpoint has already been accepted; this one is outdated.
pub const TL_FAULT_STREAM_OUTDATED: tl_status = 109;
/// The ticket is unknown, was already used, or belongs to another endpoint; request a new one.
pub const TL_FAULT_BAD_TICKET: tl_status = 110;
/// Another program uses streams with this context on that machine; choose another context.
pub const TL_FAULT_CONTEXT_BUSY: tl_status = 111;
/// The endpoint was destroyed by its program.
pub const TL_FAULT_STREAM_DESTROYED: tl_status = 112;
