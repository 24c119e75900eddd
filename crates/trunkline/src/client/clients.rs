//! The clients of the three forms: one connection with the verbs of the form.

use std::sync::Arc;
use std::{fmt, io};

use trunkline_net::{Dialler, Transport};

use super::verbs::Shared;
use super::{ConnectError, ConnectOptions};

/// Defines a client for each form of the verbs.
macro_rules! clients {
    ($($(#[$doc:meta])* $module:ident { $($(#[$into_doc:meta])* $into:ident -> $other:ident,)* })*) => {$(
        pub(crate) mod $module {
            use super::*;

            $(#[$doc])*
            #[derive(Clone)]
            pub struct Client {
                pub(in super::super) shared: Arc<Shared>,
            }

            impl Client {
                /// Starts to connect to the engine that `url` names (`tl://host[:port]`; a bare
                /// name or `tl:///` is this machine). Calls wait for the connection.
                /// [`wait_connected`](Self::wait_connected) returns as soon as it is up.
                ///
                /// A connection to another machine is encrypted only if the user has
                /// [joined](crate::Contexts) the engine. Otherwise
                /// [`is_exposed`](crate::Session::is_exposed) of the session is true: warn the user
                /// then, because the library prints nothing.
                ///
                /// # Errors
                /// [`ConnectError`]: `url` is not valid, or the system cannot provide another
                /// descriptor or thread.
                pub fn connect(url: &str) -> Result<Self, ConnectError> {
                    Self::connect_with(&ConnectOptions::new(url)?)
                }

                /// Starts to connect with `options`.
                ///
                /// # Errors
                /// [`ConnectError::Start`]: the system cannot provide another descriptor or thread.
                pub fn connect_with(options: &ConnectOptions) -> Result<Self, ConnectError> {
                    Ok(Self {
                        shared: Shared::start(options.dialler(), options)?,
                    })
                }

                $(
                    $(#[$into_doc])*
                    pub fn $into(self) -> super::$other::Client {
                        super::$other::Client {
                            shared: self.shared,
                        }
                    }
                )*
            }

            impl fmt::Debug for Client {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.debug_struct("Client")
                        .field("state", &self.state())
                        .finish_non_exhaustive()
                }
            }
        }
    )*};
}

clients! {
    /// A connection to an engine, usable by any number of threads. It reconnects and restores its
    /// subscriptions automatically. A clone uses the same connection.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use trunkline::{Client, OpenOptions, ReadingBuffer};
    /// # let client = Client::connect("tl:///")?;
    /// # let (patience, names) = (Duration::from_secs(5), ["rig/level", "rig/flow"]);
    /// let opened = client.open(&names, OpenOptions::default(), patience)?;
    /// let mut variables = Vec::new();
    /// for one in opened {
    ///     variables.push(one?.variable);
    /// }
    /// let mut buffer = ReadingBuffer::new();
    /// client.read_into(&variables, &mut buffer, patience)?;
    /// for reading in buffer.iter() {
    ///     let reading = reading.map_err(Clone::clone)?;
    ///     println!("{:?} {}", reading.get::<f64>(), reading.quality());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    blocking {
        /// Converts this into an async client on the same connection.
        into_async -> aio,
        /// Converts this into a polled client on the same connection.
        into_polled -> polled,
    }

    /// An async connection to an engine; see the blocking [`Client`](crate::Client).
    ///
    /// # Cancel safety
    /// Dropping a call has the effect of a timeout. A request that was not sent is cancelled and
    /// will never be sent. A request that was sent may still be carried out; its answer is
    /// discarded.
    aio {
        /// Converts this into a blocking client on the same connection.
        into_blocking -> blocking,
        /// Converts this into a polled client on the same connection.
        into_polled -> polled,
    }

    /// A connection to an engine whose calls return at once; see the blocking
    /// [`Client`](crate::Client). The program polls, waits for or awaits the answer of a call.
    polled {
        /// Converts this into a blocking client on the same connection.
        into_blocking -> blocking,
        /// Converts this into an async client on the same connection.
        into_async -> aio,
    }
}

impl blocking::Client {
    /// Connects through a memory pipe that `connect` creates.
    pub(crate) fn through_pipe(
        connect: impl FnMut() -> io::Result<Transport> + Send + 'static,
    ) -> Result<Self, ConnectError> {
        let options = ConnectOptions::new("tl:///")?;
        Ok(Self {
            shared: Shared::start(Dialler::pipe(connect), &options)?,
        })
    }
}
