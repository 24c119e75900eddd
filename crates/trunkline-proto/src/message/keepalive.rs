//! KEEPALIVE and ACK: keep-alives and acknowledgements of updates.

use super::form::{Fixed, Varint};
use super::layout::record;
use super::list::list_frame;
use super::single::single_frame;

record! {
    /// A sign of life from the sender.
    #[derive(Copy, Eq, Default)]
    pub struct Keepalive {
        /// Time of the sender's monotonic clock in nanoseconds. Only the sender uses it, when the
        /// peer returns it as `echo`.
        pub sent: u64 = Fixed,
        /// The field `sent` of the last keep-alive received from the other end; 0 if there was
        /// none.
        pub echo: u64 = Fixed,
        /// Nanoseconds between the arrival of that keep-alive and the sending of this one.
        pub echo_held_ns: u64 = Fixed,
        /// Number of update records on this connection so far: received by a client, sent by an
        /// engine (0 from an engine that does not compute a digest).
        pub records_received: u64 = Fixed,
        /// From the engine: sum modulo 2^64 of [`digest::of_position`](crate::digest::of_position)
        /// over the update records sent on this connection before this frame. 0 from a client.
        pub digest: u64 = Fixed,
    }
}

single_frame! { Keepalive, Keepalive, unnumbered }

record! {
    #[derive(Copy, Eq, Default)]
    pub struct AckHead {
        /// Number of update records received on this connection.
        pub records_received: u64 = Fixed,
    }
}

record! {
    /// Permission to send more updates of an `all` subscription.
    #[derive(Copy, Eq, Default)]
    pub struct Grant {
        pub subscription: u32 = Varint,
        pub more: u64 = Varint,
    }
}

list_frame! {
    AckFrame: Ack, Ack, AckBuilder,
    head AckHead, item Grant, empty_frame kept
}
