//! What the ends of a stream hand on to their cores, said once for the ends of elements of a type
//! of Rust and for those of values: `forward!(writer [T: Element] Writer<T>)`.

/// Methods of an end, which has them from its `core`.
macro_rules! forward {
    (writer [$($of:tt)*] $end:ident $(<$t:ident>)?) => {
        impl<$($of)*> $end $(<$t>)? {
            /// Sends everything now, and waits until it has come so far (NS-42 to NS-44). With a
            /// timeout of zero it returns without waiting (NS-49).
            ///
            /// # Errors
            /// [`StreamError::Timeout`]; the flush goes on. Otherwise the stream is over.
            pub fn flush(
                &mut self,
                until: Until,
                timeout: Option<Duration>,
            ) -> Result<(), StreamError> {
                block(self.core.flush(&Blocking, until, timeout))
            }

            /// Closes the end when the reader has everything, or after `timeout`; says how many
            /// elements were not delivered.
            pub fn close(mut self, timeout: Option<Duration>) -> Closed {
                block(self.core.close(&Blocking, timeout))
            }

            /// Destroys the end at once: what is in its buffer is not sent any more (NS-45). The
            /// reader gets [`StreamError::Aborted`] behind what has come. Says how many elements
            /// the reader lacks.
            pub fn abort(self) -> Closed {
                self.abort_because(crate::writer::ABORTED)
            }

            /// [`abort`](Self::abort) with a reason that the reader is told, of which the first
            /// 1024 bytes count.
            pub fn abort_because(mut self, reason: &str) -> Closed {
                block(self.core.abort(&Blocking, reason))
            }
        }

        forward!(flush_async, close_async -> Closed, [$($of)*] $end $(<$t>)?);
        forward!(properties "What can be asked at any time, from any thread.", [$($of)*] $end $(<$t>)?);
    };

    (writer to several [$($of:tt)*] $end:ident $(<$t:ident>)?) => {
        impl<$($of)*> $end $(<$t>)? {
            /// Sends everything now, and waits until it has come so far at every reader that is
            /// there, or is lost to it. With a timeout of zero it returns without waiting.
            ///
            /// # Errors
            /// [`StreamError::Timeout`]; the flush goes on. [`StreamError::NoJournal`] for
            /// [`Until::Durable`] when a reader has none.
            pub fn flush(
                &mut self,
                until: Until,
                timeout: Option<Duration>,
            ) -> Result<(), StreamError> {
                block(self.core.flush(&Blocking, until, timeout))
            }

            /// Closes the end when every reader has everything, or after `timeout`; says what each
            /// of them lacks that was there.
            pub fn close(mut self, timeout: Option<Duration>) -> Vec<Lacking> {
                block(self.core.close(&Blocking, timeout))
            }

            /// Destroys the end at once: what is in its buffer is not sent any more. Each reader
            /// gets [`StreamError::Aborted`] behind what has come. Says what each reader lacks.
            pub fn abort(self) -> Vec<Lacking> {
                self.abort_because(crate::writer::ABORTED)
            }

            /// [`abort`](Self::abort) with a reason that the readers are told, of which the first
            /// 1024 bytes count.
            pub fn abort_because(mut self, reason: &str) -> Vec<Lacking> {
                block(self.core.abort(&Blocking, reason))
            }

            /// The readers that are there, or are waited for.
            pub fn readers(&self) -> Vec<Present> {
                self.core.present()
            }

            /// The readers that have left since this was asked last, and what each lacked; of more
            /// than 64 the last ones.
            pub fn departed(&mut self) -> Vec<Lacking> {
                self.core.departed()
            }
        }

        forward!(flush_async, close_async -> Vec<Lacking>, [$($of)*] $end $(<$t>)?);
        forward!(properties "What can be asked at any time, from any thread: of all readers together.", [$($of)*] $end $(<$t>)?);
    };

    (reader [$($of:tt)*] $end:ident $(<$t:ident>)?) => {
        impl<$($of)*> $end $(<$t>)? {
            /// Elements that a writer with several readers has dropped for this one, as far as it
            /// is known: also those that no read was told of yet. Of any other writer 0.
            pub fn lost_total(&self) -> u64 {
                self.core.lost_total()
            }

            /// Elements that can be read now.
            pub fn available(&mut self) -> usize {
                self.core.available()
            }

            /// Says that the program is done with everything it has read: with a journal, none of
            /// it comes again after a crash. Without one there is nothing to say.
            ///
            /// # Errors
            /// [`StreamError::Journal`]; what was read may come again after a crash.
            pub fn commit(&mut self) -> Result<(), StreamError> {
                block(self.core.commit(&Blocking))
            }

            /// [`commit`](Self::commit) for tasks.
            ///
            /// # Errors
            /// As there.
            pub async fn commit_async(&mut self) -> Result<(), StreamError> {
                self.core.commit(&Task).await
            }

            /// Destroys the end. The writer is told how far it came.
            ///
            /// # Errors
            /// [`StreamError::Journal`]: the end is gone, and its journal was not emptied. An
            /// endpoint that is created with it again goes on with this stream, and may be closed
            /// then.
            pub fn close(mut self) -> Result<(), StreamError> {
                block(self.core.destroy(&Blocking))
            }
        }

        forward!(properties "What can be asked at any time, from any thread.", [$($of)*] $end $(<$t>)?);
    };

    (reader of several [$($of:tt)*] $end:ident $(<$t:ident>)?) => {
        impl<$($of)*> $end $(<$t>)? {
            /// The writers that are there, or are waited for, or of which something is left to
            /// read.
            pub fn writers(&mut self) -> Vec<Present> {
                self.core.present()
            }

            /// Destroys the end. Each writer is told how far it came.
            pub fn close(mut self) {
                block(self.core.close(&Blocking));
            }
        }

        forward!(properties "What can be asked at any time, from any thread: of all writers together.", [$($of)*] $end $(<$t>)?);
    };

    (flush_async, close_async -> $left:ty, [$($of:tt)*] $end:ident $(<$t:ident>)?) => {
        impl<$($of)*> $end $(<$t>)? {
            /// [`flush`](Self::flush) for tasks.
            ///
            /// # Errors
            /// As there.
            pub async fn flush_async(
                &mut self,
                until: Until,
                timeout: Option<Duration>,
            ) -> Result<(), StreamError> {
                self.core.flush(&Task, until, timeout).await
            }

            /// [`close`](Self::close) for tasks.
            pub async fn close_async(mut self, timeout: Option<Duration>) -> $left {
                self.core.close(&Task, timeout).await
            }
        }
    };

    (properties $doc:literal, [$($of:tt)*] $end:ident $(<$t:ident>)?) => {
        impl<$($of)*> $end $(<$t>)? {
            /// Asks for the properties, from any thread, also while this end waits.
            pub fn monitor(&self) -> Monitor {
                self.core.monitor()
            }

            #[doc = $doc]
            pub fn properties(&self) -> Properties {
                self.core.properties()
            }
        }

        impl<$($of)*> std::fmt::Debug for $end $(<$t>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($end))
                    .field("properties", &self.properties())
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use forward;
