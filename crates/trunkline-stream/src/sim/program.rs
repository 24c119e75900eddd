//! Defines the writer and the reader of a simulated program. They have the operations of the typed
//! writers and readers, but transfer bytes.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::message::stream::Until;
use trunkline_types::DataType;

use super::Process;
use crate::bytes::{Closed, ReadAmount, ReaderCore, WriterCore};
use crate::element;
use crate::error::StreamError;
use crate::options::Options;
use crate::properties::Properties;
use crate::rendezvous;
use crate::wait::Task;

pub struct SimWriter(WriterCore);

impl SimWriter {
    pub async fn create(
        process: &Arc<Process>,
        url: &str,
        data_type: &DataType,
        options: Options,
    ) -> Result<Self, StreamError> {
        let core = rendezvous::writer(&Task, process, url, data_type.clone(), options).await?;
        Ok(Self(core))
    }

    /// Like [`Writer::write_many`](crate::Writer::write_many).
    pub async fn write(
        &mut self,
        bytes: &[u8],
        elements: usize,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        if self.0.try_write(bytes, elements) {
            return Ok(());
        }
        for element in element::split_elements(self.0.form, bytes) {
            self.0.check_element(element.len())?;
        }
        self.0.write(&Task, bytes, elements, timeout).await
    }

    pub async fn flush(
        &mut self,
        until: Until,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        self.0.flush(&Task, until, timeout).await
    }

    pub async fn close(mut self, timeout: Option<Duration>) -> Closed {
        self.0.close(&Task, timeout).await
    }

    pub async fn abort(mut self) -> Closed {
        self.0.abort(&Task, crate::bytes::ABORTED).await
    }

    pub fn properties(&self) -> Properties {
        self.0.properties()
    }
}

pub struct SimReader(ReaderCore);

impl SimReader {
    pub async fn create(
        process: &Arc<Process>,
        url: &str,
        data_type: &DataType,
        options: Options,
    ) -> Result<Self, StreamError> {
        let core = rendezvous::reader(&Task, process, url, data_type.clone(), options).await?;
        Ok(Self(core))
    }

    /// Like [`Reader::read_many`](crate::Reader::read_many), or
    /// [`read_available`](crate::Reader::read_available) if `count` is `None`. The bytes stay in
    /// the buffer until `take` returns.
    pub async fn read(
        &mut self,
        count: Option<usize>,
        timeout: Option<Duration>,
        take: impl FnOnce(&[u8], usize),
    ) -> Result<usize, StreamError> {
        let amount = count.map_or(ReadAmount::Available, ReadAmount::Exactly);
        let count = self.0.wait_for(&Task, amount, timeout).await?;
        let bytes = self.0.region(count)?;
        let len = bytes.len();
        take(bytes, count);
        self.0.release(len, count);
        Ok(count)
    }

    pub async fn commit(&mut self) -> Result<(), StreamError> {
        self.0.commit(&Task).await
    }

    pub async fn close(mut self) -> Result<(), StreamError> {
        self.0.destroy(&Task).await
    }

    pub fn properties(&self) -> Properties {
        self.0.properties()
    }
}
