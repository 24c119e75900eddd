//! An engine that listens, and I/O servers that deliver its variables over the network.

use std::io::{Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use trunkline::io::IoServer;
use trunkline::local::Subscription;
use trunkline::types::{
    Contract, DataType, LibraryDefinition, Properties, Reading, VariableDefinition,
};
use trunkline::{ConnectOptions, Engine, EngineOptions, Provider, ProviderOptions, ProviderStatus};

use crate::device::Device;

/// Limit that only a hanging test reaches.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub fn engine_at(listen: SocketAddr) -> Engine {
    let options = EngineOptions {
        listen: vec![listen.into()],
        ..EngineOptions::default()
    };
    Engine::start(options).expect("the port is free")
}

/// An engine with the library `loop`, whose `level` comes from the item `current` of `plant`.
pub struct Rig {
    pub engine: Engine,
    pub device: Device,
}

impl Rig {
    pub fn new() -> Self {
        let engine = engine_at("127.0.0.1:0".parse().expect("an address"));
        let device = Device::default();
        device.bench().raw = 12.0;
        for library in device.libraries("plant") {
            engine.deploy(&library).expect("the library is valid");
        }
        Self { engine, device }
    }

    /// An I/O server in front of the device, as it would run in another process.
    pub fn provider(&self) -> Provider {
        self.provider_with(None)
    }

    /// As [`provider`](Self::provider), with this scan period.
    pub fn provider_with(&self, period: Option<Duration>) -> Provider {
        let options = ProviderOptions {
            period,
            ..ProviderOptions::named("plant")
        };
        start(self.engine.local_addrs()[0], &self.device, &options)
    }

    pub fn level(&self) -> Updates {
        follow(&self.engine, "loop/level")
    }
}

/// Connects an I/O server named `plant`.
pub fn provide(engine: SocketAddr, device: &Device, publish: bool) -> Provider {
    let options = ProviderOptions {
        publish,
        ..ProviderOptions::named("plant")
    };
    start(engine, device, &options)
}

fn start(engine: SocketAddr, device: &Device, options: &ProviderOptions) -> Provider {
    let connect = ConnectOptions::new(&format!("tl://{engine}")).expect("a URL");
    Provider::start(&connect, options, Box::new(device.clone())).expect("a provider")
}

/// Waits until the state of the I/O server satisfies the condition.
pub fn wait_for(provider: &Provider, is_it: impl Fn(&ProviderStatus) -> bool) -> ProviderStatus {
    let mut status = provider.status();
    while !is_it(&status) {
        status = provider.wait_status(&status).expect("it is running");
    }
    status
}

/// A library with one variable from this source.
pub fn library(name: &str, source: &str) -> LibraryDefinition {
    let mut properties = Properties::new(DataType::F64);
    properties.source = source.to_owned();
    LibraryDefinition {
        name: name.to_owned(),
        description: String::new(),
        variables: vec![VariableDefinition {
            path: "x".to_owned(),
            properties: Arc::new(properties),
        }],
    }
}

/// The updates of one variable, as a program in the engine's process sees them.
pub struct Updates(pub Subscription);

pub fn follow(engine: &Engine, name: &str) -> Updates {
    let variable = engine.variable::<f64>(name).expect("the variable exists");
    Updates(
        variable
            .subscribe(Contract::Latest)
            .expect("it may be read"),
    )
}

impl Updates {
    /// Returns the next reading that satisfies the condition.
    pub fn next_where(&mut self, is_it: impl Fn(&Reading) -> bool) -> Reading {
        loop {
            let reading = self.0.next(Some(TIMEOUT)).expect("an update");
            if is_it(&reading) {
                return reading;
            }
        }
    }
}

/// A cable between an I/O server and an engine, which can be cut.
pub struct Cable {
    pub near: SocketAddr,
    ends: Arc<Mutex<Vec<TcpStream>>>,
}

impl Cable {
    pub fn to(engine: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let near = listener.local_addr().expect("it listens");
        let ends = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&ends);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(engine).expect("the engine listens");
                let copy = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
                carry(copy(&near), copy(&far));
                carry(copy(&far), copy(&near));
                kept.lock().expect("no panic").extend([near, far]);
            }
        });
        Self { near, ends }
    }

    pub fn cut(&self) {
        for end in self.ends.lock().expect("no panic").drain(..) {
            // The connection may already have ended.
            let _ended = end.shutdown(Shutdown::Both);
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if to.write_all(&bytes[..count]).is_err() {
                return;
            }
        }
    });
}
