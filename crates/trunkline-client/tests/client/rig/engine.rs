//! A fake engine that answers a client, built only from the protocol's codecs.

use std::collections::{BTreeMap, BTreeSet};

use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::hello::Welcome;
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::updates::UpdatesBuilder;
use trunkline_proto::{FrameBuffer, FrameKind, FrameLimits};
use trunkline_types::wire::encode_value;
use trunkline_types::{Access, DataType, Properties, Quality, Tick, Timestamp, Value};

use super::said::Said;

pub struct FakeEngine {
    pub welcome: Welcome,
    /// The frame that refuses the hello.
    pub refused: Option<Refused>,
    pub variables: Vec<FakeVariable>,
    pub subscriptions: BTreeMap<u32, FakeSubscription>,
    /// Kinds of frames that the engine does not answer.
    pub held: BTreeSet<u8>,
    /// Every frame of the client on this connection.
    pub said: Vec<Said>,
    /// Bytes in transit to the client.
    pub out: Vec<u8>,
    pub records_sent: u64,
    pub records_confirmed: u64,
    frames: FrameBuffer,
    pub(super) pages: BTreeMap<u32, u32>,
    /// Indices of variables by name, for many variables; see [`FakeEngine::index`].
    pub(super) places: BTreeMap<String, usize>,
}

pub struct FakeVariable {
    pub name: String,
    pub handle: u32,
    pub data_type: DataType,
    pub access: Access,
    pub sequence: u64,
    pub value: Option<Value>,
    pub engine_timestamp: Timestamp,
    pub quality: Quality,
    pub properties: Properties,
}

pub struct FakeSubscription {
    pub handles: BTreeSet<u32>,
    pub granted: u64,
}

impl FakeEngine {
    pub fn new() -> Self {
        let welcome = Welcome {
            epoch: 10,
            session: 1,
            engine_name: "fake".to_owned(),
            wall: super::WALL,
            ..Welcome::default()
        };
        Self {
            welcome,
            refused: None,
            variables: Vec::new(),
            subscriptions: BTreeMap::new(),
            held: BTreeSet::new(),
            said: Vec::new(),
            out: Vec::new(),
            records_sent: 0,
            records_confirmed: 0,
            frames: FrameBuffer::new(FrameLimits::HELLO),
            pages: BTreeMap::new(),
            places: BTreeMap::new(),
        }
    }

    /// Builds an index of the variables. No variable may be added, removed or renumbered
    /// afterwards.
    pub fn index(&mut self) {
        let names = self.variables.iter().map(|variable| variable.name.clone());
        self.places = names.zip(0..).collect();
    }

    /// Does not answer frames of this kind from now on.
    pub fn hold(&mut self, kind: FrameKind) {
        self.held.insert(kind.number());
    }

    pub fn add(&mut self, name: &str, value: Value) -> u32 {
        let data_type = value.plain_type().expect("a scalar");
        let handle = self.add_unwritten(name, data_type);
        let variable = self.variable(handle);
        variable.sequence = 1;
        variable.value = Some(value);
        handle
    }

    pub fn add_unwritten(&mut self, name: &str, data_type: DataType) -> u32 {
        let handle = self.variables.last().map_or(100, |last| last.handle + 1);
        self.variables.push(FakeVariable {
            name: name.to_owned(),
            handle,
            data_type: data_type.clone(),
            access: Access::ReadWrite,
            sequence: 0,
            value: None,
            engine_timestamp: super::WALL,
            quality: Quality::GOOD,
            properties: Properties::new(data_type),
        });
        handle
    }

    pub fn variable(&mut self, handle: u32) -> &mut FakeVariable {
        if !self.places.is_empty() {
            return &mut self.variables[handle as usize - 100];
        }
        self.variables
            .iter_mut()
            .find(|v| v.handle == handle)
            .expect("a variable")
    }

    pub fn handle_of(&self, name: &str) -> u32 {
        self.variables
            .iter()
            .find(|v| v.name == name)
            .expect("a variable")
            .handle
    }

    /// Writes a value here, and sends the update to every subscription.
    pub fn set(&mut self, name: &str, value: impl Into<f64>) -> u64 {
        let handle = self.handle_of(name);
        let variable = self.variable(handle);
        variable.sequence += 1;
        variable.value = Some(Value::F64(value.into()));
        let sequence = variable.sequence;
        let subscribers = self.subscriptions.iter();
        let ids: Vec<u32> = subscribers
            .filter(|(_, s)| s.handles.contains(&handle))
            .map(|(id, _)| *id)
            .collect();
        ids.iter().for_each(|id| self.send_current(*id, handle));
        sequence
    }

    /// Sends the current value of a variable.
    pub fn send_current(&mut self, subscription: u32, handle: u32) {
        let mut value = Vec::new();
        let record = self.record(handle, &mut value);
        let mut frame = UpdatesBuilder::begin(&mut self.out, subscription);
        frame.push(&record);
        frame.finish();
        self.records_sent += 1;
    }

    pub(super) fn record<'v>(&mut self, handle: u32, bytes: &'v mut Vec<u8>) -> UpdateRecord<'v> {
        let variable = self.variable(handle);
        let Some(value) = &variable.value else {
            return UpdateRecord {
                sequence: variable.sequence,
                ..UpdateRecord::nothing_yet(handle)
            };
        };
        encode_value(value, bytes);
        UpdateRecord {
            handle,
            sequence: variable.sequence,
            engine_timestamp: variable.engine_timestamp,
            source_timestamp: variable.engine_timestamp,
            quality: variable.quality,
            own: false,
            value: Some(bytes),
        }
    }

    /// Removes the variable of this name.
    pub fn undeploy(&mut self, name: &str) {
        let handle = self.handle_of(name);
        self.variables.retain(|v| v.handle != handle);
        self.subscriptions.values_mut().for_each(|s| {
            s.handles.remove(&handle);
        });
        let mut frame = HandlesBuilder::gone(&mut self.out);
        frame.push(&handle);
        frame.finish(false);
    }

    /// Starts a new connection.
    pub fn connected(&mut self) {
        self.frames.reset(FrameLimits::HELLO);
        self.subscriptions.clear();
        self.pages.clear();
        self.said.clear();
        self.out.clear();
        self.records_sent = 0;
        self.records_confirmed = 0;
    }

    /// Processes the client's output, and answers it.
    pub fn take(&mut self, now: Tick, mut input: &[u8]) {
        let mut frames = std::mem::take(&mut self.frames);
        while let Some(frame) = frames.next_frame(now, &mut input).expect("frames") {
            let said = Said::of(&frame);
            if let Said::Hello(_) = said {
                let limits = FrameLimits {
                    frame_max: self.welcome.frame_max,
                    ..FrameLimits::default()
                };
                frames.set_limits(limits);
            }
            self.said.push(said.clone());
            if !self.held.contains(&said.kind().number()) {
                self.answer(&said);
            }
        }
        self.frames = frames;
    }
}
