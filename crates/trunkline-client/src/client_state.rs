//! The state that every part of a client uses: options, connection and variables.

use crate::ask::OwnRequests;
use crate::connection::Connection;
use crate::options::ClientOptions;
use crate::variables::Variables;

#[derive(Debug)]
pub(crate) struct ClientState {
    pub(crate) options: ClientOptions,
    pub(crate) connection: Connection,
    pub(crate) variables: Variables,
    pub(crate) own_requests: OwnRequests,
    /// Number that increases with every event that a program can wait for.
    pub(crate) changes: u64,
}

impl ClientState {
    pub(crate) fn new(options: ClientOptions) -> Self {
        Self {
            connection: Connection::new(&options),
            options,
            variables: Variables::default(),
            own_requests: OwnRequests::default(),
            changes: 0,
        }
    }
}
