//! Defines the macro `forward!`, which generates the methods that an endpoint forwards to its core.
//!
//! Typed endpoints and endpoints of run-time values use the same macro, for example
//! `forward!(writer [T: Element] Writer<T>)`.

/// Implements methods of an endpoint by calling its field `core`.
macro_rules! forward {
    (
        $(#[$doc:meta])*
        create($($arg:ident: $ty:ty),*), [$($generics:tt)*] $end:ident $(<$t:ident>)?
    ) => {
        impl<$($generics)*> $end $(<$t>)? {
            $(#[$doc])*
            pub fn create($($arg: $ty),*) -> Result<Self, StreamError> {
                block(Self::create_impl(&Blocking, $($arg),*))
            }

            /// Async version of [`create`](Self::create).
            pub async fn create_async($($arg: $ty),*) -> Result<Self, StreamError> {
                Self::create_impl(&Task, $($arg),*).await
            }
        }
    };

    // `$cancelled` documents the effect of dropping the future.
    (
        $(#[$doc:meta])*
        $name:ident, $name_async:ident($($arg:ident: $ty:ty),*) -> $output:ty
            = $method:ident($($value:expr),*), cancelled $cancelled:literal,
        [$($generics:tt)*] $end:ident $(<$t:ident>)?
    ) => {
        impl<$($generics)*> $end $(<$t>)? {
            $(#[$doc])*
            pub fn $name(&mut self, $($arg: $ty),*) -> Result<$output, StreamError> {
                block(self.$method(&Blocking, $($value),*))
            }

            #[doc = concat!("Async version of [`", stringify!($name), "`](Self::", stringify!($name), ").")]
            ///
            /// # Cancel safety
            #[doc = $cancelled]
            pub async fn $name_async(&mut self, $($arg: $ty),*) -> Result<$output, StreamError> {
                self.$method(&Task, $($value),*).await
            }
        }
    };

    (writes elements [$($generics:tt)*] $end:ident <$t:ident>) => {
        impl<$($generics)*> $end<$t> {
            #[inline]
            async fn write_impl(
                &mut self,
                waiter: &impl Waiter,
                elements: &[$t],
                timeout: Option<Duration>,
            ) -> Result<(), StreamError> {
                let bytes = $t::to_bytes(elements, &mut self.scratch);
                if self.core.form == ElementForm::Variable {
                    for element in element::split_elements(self.core.form, bytes) {
                        self.core.check_element(element.len() + element::LENGTH_BYTES)?;
                    }
                }
                self.core.write(waiter, bytes, elements.len(), timeout).await
            }
        }
    };

    (writes values $end:ident) => {
        impl $end {
            pub fn data_type(&self) -> &DataType {
                &self.encoder.data_type
            }

            async fn write_impl(
                &mut self,
                waiter: &impl Waiter,
                values: &[Value],
                timeout: Option<Duration>,
            ) -> Result<(), StreamError> {
                let (form, core) = (self.core.form, &mut self.core);
                let check = |bytes| core.check_element(bytes);
                let bytes = self.encoder.encode(form, values, check)?;
                core.write(waiter, bytes, values.len(), timeout).await
            }

            /// Waits for room for one element of `size` bytes. Returns the number of elements for
            /// which there is room, at most `max`. Does not wait if `max` is 0.
            fn wait_for_one(
                &mut self,
                size: usize,
                max: usize,
                timeout: Option<Duration>,
            ) -> Result<usize, StreamError> {
                let core = &mut self.core;
                match core.room().min(max) {
                    0 if max > 0 => {
                        block(core.wait_for_room(&Blocking, size, 1, timeout))?;
                        Ok(core.room().min(max))
                    }
                    room => Ok(room),
                }
            }

            /// Lets `fill` write into the memory for `room` elements, and commits the complete
            /// elements.
            fn write_in_place<E: From<StreamError>>(
                &mut self,
                size: usize,
                room: usize,
                fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
            ) -> Result<usize, E> {
                let form = self.core.form;
                let space = self.core.free_space(room * size);
                let bytes = fill(&mut *space)?.min(space.len());
                let count = bytes / size;
                let bytes = count * size;
                self.encoder.check(form, &space[..bytes])?;
                self.core.commit(bytes, count);
                Ok(count)
            }
        }
    };

    (writer [$($generics:tt)*] $end:ident $(<$t:ident>)?) => {
        impl<$($generics)*> $end $(<$t>)? {
            /// Sends all written elements now, and waits until they have reached the stage `until`
            /// (NS-42 to NS-44). With a timeout of zero it returns without waiting (NS-49).
            ///
            /// # Errors
            /// [`StreamError::Timeout`]; the flush continues. Any other error means that the stream
            /// is over.
            pub fn flush(
                &mut self,
                until: Until,
                timeout: Option<Duration>,
            ) -> Result<(), StreamError> {
                block(self.core.flush(&Blocking, until, timeout))
            }

            /// Closes the writer once the reader has received all elements, or after `timeout`.
            /// Returns how many elements were not delivered.
            pub fn close(mut self, timeout: Option<Duration>) -> Closed {
                block(self.core.close(&Blocking, timeout))
            }

            /// Aborts the writer immediately: buffered elements are no longer sent (NS-45). The
            /// reader gets [`StreamError::Aborted`] after the elements that have arrived. Returns
            /// how many elements the reader has not received.
            pub fn abort(self) -> Closed {
                self.abort_because(crate::bytes::ABORTED)
            }

            /// Like [`abort`](Self::abort), with a reason for the reader, truncated to 1024 bytes.
            pub fn abort_because(mut self, reason: &str) -> Closed {
                block(self.core.abort(&Blocking, reason))
            }
        }

        forward!(flush_async, close_async -> Closed, [$($generics)*] $end $(<$t>)?);
        forward!(properties "Returns the properties; works at any time, from any thread.", [$($generics)*] $end $(<$t>)?);
    };

    (writer to several [$($generics:tt)*] $end:ident $(<$t:ident>)?) => {
        impl<$($generics)*> $end $(<$t>)? {
            /// Sends all written elements now, and waits until they have reached the stage `until`
            /// at every current reader, or were dropped for that reader. With a timeout of zero it
            /// returns without waiting.
            ///
            /// # Errors
            /// [`StreamError::Timeout`]; the flush continues. [`StreamError::NoJournal`] for
            /// [`Until::Durable`] if a reader has no journal.
            pub fn flush(
                &mut self,
                until: Until,
                timeout: Option<Duration>,
            ) -> Result<(), StreamError> {
                block(self.core.flush(&Blocking, until, timeout))
            }

            /// Closes the writer once every reader has received all elements, or after `timeout`.
            /// Returns how many elements each remaining reader has not received.
            pub fn close(mut self, timeout: Option<Duration>) -> Vec<Undelivered> {
                block(self.core.close(&Blocking, timeout))
            }

            /// Aborts the writer immediately: buffered elements are no longer sent. Each reader
            /// gets [`StreamError::Aborted`] after the elements that have arrived. Returns how many
            /// elements each reader has not received.
            pub fn abort(self) -> Vec<Undelivered> {
                self.abort_because(crate::bytes::ABORTED)
            }

            /// Like [`abort`](Self::abort), with a reason for the readers, truncated to 1024 bytes.
            pub fn abort_because(mut self, reason: &str) -> Vec<Undelivered> {
                block(self.core.abort(&Blocking, reason))
            }

            /// Returns the readers that are connected or may reconnect.
            pub fn readers(&self) -> Vec<PeerStatus> {
                self.core.peers()
            }

            /// Returns the readers that have left since the last call (at most the last 64), with
            /// the number of elements that each had not received.
            pub fn departed(&mut self) -> Vec<Undelivered> {
                self.core.departed()
            }
        }

        forward!(flush_async, close_async -> Vec<Undelivered>, [$($generics)*] $end $(<$t>)?);
        forward!(properties "Returns the combined properties of all readers; works at any time, from any thread.", [$($generics)*] $end $(<$t>)?);
    };

    (reader [$($generics:tt)*] $end:ident $(<$t:ident>)?) => {
        impl<$($generics)*> $end $(<$t>)? {
            /// Returns the number of elements that a writer with several readers is known to have
            /// dropped for this reader, including those that no read has reported yet; 0 for any
            /// other writer.
            pub fn lost_total(&self) -> u64 {
                self.core.lost_total()
            }

            /// Returns the number of elements that can be read now.
            pub fn available(&mut self) -> usize {
                self.core.available()
            }

            /// Returns true if the stream has ended and everything was read: the next read returns
            /// [`StreamError::Ended`]. A reader with a journal should then be
            /// [closed](Self::close), because the writer waits for it; dropping it would leave the
            /// stream to the next reader.
            pub fn is_at_end(&mut self) -> bool {
                self.core.is_at_end()
            }

            /// Declares that the program has processed all elements read so far. With a journal,
            /// these elements are not delivered again after a crash. Without a journal, this does
            /// nothing.
            ///
            /// # Errors
            /// [`StreamError::Journal`]; elements already read may be delivered again after a
            /// crash.
            pub fn commit(&mut self) -> Result<(), StreamError> {
                block(self.core.commit(&Blocking))
            }

            /// Async version of [`commit`](Self::commit).
            pub async fn commit_async(&mut self) -> Result<(), StreamError> {
                self.core.commit(&Task).await
            }

            /// Destroys the reader. The writer learns how far the stream was read.
            ///
            /// # Errors
            /// [`StreamError::Journal`]: the reader is closed, but its journal was not emptied. An
            /// endpoint created with the same journal continues this stream, and can then be
            /// closed.
            pub fn close(mut self) -> Result<(), StreamError> {
                block(self.core.destroy(&Blocking))
            }
        }

        forward!(properties "Returns the properties; works at any time, from any thread.", [$($generics)*] $end $(<$t>)?);
    };

    (reader of several [$($generics:tt)*] $end:ident $(<$t:ident>)?) => {
        impl<$($generics)*> $end $(<$t>)? {
            /// Returns the writers that are connected or may reconnect, and those with elements left
            /// to read.
            pub fn writers(&mut self) -> Vec<PeerStatus> {
                self.core.peers()
            }

            /// Destroys the reader. Each writer learns how far its stream was read.
            pub fn close(mut self) {
                block(self.core.close(&Blocking));
            }
        }

        forward!(properties "Returns the combined properties of all writers; works at any time, from any thread.", [$($generics)*] $end $(<$t>)?);
    };

    (flush_async, close_async -> $closed:ty, [$($generics:tt)*] $end:ident $(<$t:ident>)?) => {
        impl<$($generics)*> $end $(<$t>)? {
            /// Async version of [`flush`](Self::flush).
            pub async fn flush_async(
                &mut self,
                until: Until,
                timeout: Option<Duration>,
            ) -> Result<(), StreamError> {
                self.core.flush(&Task, until, timeout).await
            }

            /// Async version of [`close`](Self::close).
            pub async fn close_async(mut self, timeout: Option<Duration>) -> $closed {
                self.core.close(&Task, timeout).await
            }
        }
    };

    (properties $doc:literal, [$($generics:tt)*] $end:ident $(<$t:ident>)?) => {
        impl<$($generics)*> $end $(<$t>)? {
            /// Returns a monitor that reads the properties from any thread, even while this
            /// endpoint waits.
            pub fn monitor(&self) -> Monitor {
                self.core.monitor()
            }

            #[doc = $doc]
            pub fn properties(&self) -> Properties {
                self.core.properties()
            }
        }

        impl<$($generics)*> std::fmt::Debug for $end $(<$t>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($end))
                    .field("properties", &self.properties())
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use forward;
