//! Operates the device behind an I/O server, in the engine's process or in a separate one: opens
//! the device, scans it, reads single items, and maps each item to the variables that use it.

use std::collections::HashMap;
use std::time::Duration;

use trunkline_io::{IoError, IoServer, ItemId, Published, Scan, ScanSchedule};
use trunkline_types::{Quality, Tick, Timestamp, Value};

/// First and longest delay before another attempt to open a device.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// The error of a device whose driver panicked, and the error of the order in progress at that
/// moment.
pub(crate) const PANICKED: &str =
    "its driver panicked, which is a defect of the driver; the engine opens the device again";
pub(crate) const PANICKED_IN_ORDER: &str = "its driver panicked during this order";

const NO_ITEM: &str = "it has no such item";
const NOT_OPEN: &str = "its device is not open";

pub(crate) struct Device {
    server: Box<dyn IoServer>,
    schedule: ScanSchedule,
    scan: Scan,
    is_open: bool,
    retry_delay: Duration,
    retry_at: Tick,
    /// The item of each bound variable, and the variables that use each item.
    items: HashMap<u32, ItemId>,
    handles: HashMap<ItemId, Vec<u32>>,
}

/// A value read from the device, with its quality and source timestamp.
pub(crate) type Read = (Value, Quality, Option<Timestamp>);

impl Device {
    /// Returns a device that is due to be opened at `now`. If `period` is `None`, uses the period
    /// of the I/O server.
    pub(crate) fn new(server: Box<dyn IoServer>, period: Option<Duration>, now: Tick) -> Self {
        Self {
            schedule: ScanSchedule::new(period.unwrap_or(server.period()), now),
            server,
            scan: Scan::new(),
            is_open: false,
            retry_delay: RETRY_FIRST,
            retry_at: now,
            items: HashMap::new(),
            handles: HashMap::new(),
        }
    }

    pub(crate) fn server(&self) -> &dyn IoServer {
        &*self.server
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the time of the next scan, or of the next attempt to open the device.
    pub(crate) fn next_due(&self) -> Tick {
        match self.is_open {
            true => self.schedule.next_due(),
            false => self.retry_at,
        }
    }

    /// Opens the device if this is due. Otherwise returns `None`.
    pub(crate) fn open_if_due(
        &mut self,
        now: Tick,
        wall: Timestamp,
    ) -> Option<Result<(), IoError>> {
        if self.is_open || now < self.retry_at {
            return None;
        }
        let opened = self.server.open(now, wall);
        match opened {
            Ok(()) => (self.is_open, self.retry_delay) = (true, RETRY_FIRST),
            Err(_) => self.fail(now),
        }
        Some(opened)
    }

    /// Scans the device if it is open and a scan is due. Otherwise returns `None`.
    pub(crate) fn scan_if_due(
        &mut self,
        now: Tick,
        wall: Timestamp,
    ) -> Option<Result<(), IoError>> {
        if !self.is_open || !self.schedule.is_due(now) {
            return None;
        }
        self.schedule.started(now);
        self.scan.clear();
        let scanned = self.server.scan(now, wall, &mut self.scan);
        if scanned.is_err() {
            self.fail(now);
        }
        Some(scanned)
    }

    /// Records a failure of the device. The device is opened again after a delay, which doubles
    /// with each failure.
    pub(crate) fn fail(&mut self, now: Tick) {
        self.is_open = false;
        self.retry_at = now.saturating_add(self.retry_delay);
        self.retry_delay = (self.retry_delay * 2).min(RETRY_MAX);
    }

    /// Binds a variable to an item. Returns `None` if the device has no such item.
    pub(crate) fn bind(&mut self, handle: u32, name: &str) -> Option<ItemId> {
        self.unbind(handle);
        let item = self.server.item(name)?;
        self.items.insert(handle, item);
        self.handles.entry(item).or_default().push(handle);
        Some(item)
    }

    pub(crate) fn unbind(&mut self, handle: u32) {
        let item = self.items.remove(&handle);
        if let Some(handles) = item.and_then(|item| self.handles.get_mut(&item)) {
            handles.retain(|bound| *bound != handle);
        }
    }

    pub(crate) fn unbind_all(&mut self) {
        self.items.clear();
        self.handles.clear();
    }

    pub(crate) fn bound(&self) -> impl Iterator<Item = (u32, ItemId)> {
        self.items.iter().map(|(handle, item)| (*handle, *item))
    }

    pub(crate) fn item_of(&self, handle: u32) -> Option<ItemId> {
        self.items.get(&handle).copied()
    }

    /// Writes a raw value to the device, and returns the value that the device read back.
    ///
    /// # Errors
    /// The sentence that explains to the writer why the device refused the value.
    pub(crate) fn send(
        &mut self,
        handle: u32,
        raw: &Value,
        now: Tick,
        wall: Timestamp,
    ) -> Result<Value, String> {
        let item = self.open_item(handle)?;
        let sent = self.server.send(item, raw, now, wall);
        sent.map_err(|refusal| refusal.to_string())
    }

    /// Reads the item of a variable. Also records all other items that the device returns, for the
    /// next [`publish`](Self::publish).
    ///
    /// # Errors
    /// The sentence that explains to the reader why the device could not read the item.
    pub(crate) fn read(&mut self, handle: u32, now: Tick, wall: Timestamp) -> Result<Read, String> {
        self.scan.clear();
        let item = self.open_item(handle)?;
        let requested = self.server.request(item, now, wall, &mut self.scan);
        requested.map_err(|error| error.to_string())?;
        let found = self.scan.iter().rfind(|published| published.item == item);
        let read = found.and_then(|published| {
            let value = published.value.clone()?;
            Some((value, published.quality, published.source_timestamp))
        });
        read.ok_or_else(|| "its device returned no value for this item".to_owned())
    }

    fn open_item(&self, handle: u32) -> Result<ItemId, String> {
        let item = self.item_of(handle).ok_or(NO_ITEM)?;
        match self.is_open {
            true => Ok(item),
            false => Err(NOT_OPEN.to_owned()),
        }
    }

    /// Requests a fresh value of an item from the open device. An error appears in the device's
    /// health and at the next scan.
    pub(crate) fn request(&mut self, item: ItemId, now: Tick, wall: Timestamp) {
        self.scan.clear();
        let _error = self.server.request(item, now, wall, &mut self.scan);
    }

    /// Passes on the readings recorded since the last call: each reading once for each variable
    /// that uses its item, except the variable `except`.
    pub(crate) fn publish(&mut self, except: Option<u32>, mut each: impl FnMut(u32, &Published)) {
        for published in self.scan.drain() {
            let handles = self.handles.get(&published.item).into_iter().flatten();
            for handle in handles.filter(|handle| Some(**handle) != except) {
                each(*handle, &published);
            }
        }
    }
}
