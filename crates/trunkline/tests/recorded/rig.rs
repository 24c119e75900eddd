//! Engines as the directory of streams, and waiting for recorders.

use std::time::Duration;

use trunkline::record::{VariableRecorder, stopper};
use trunkline::stream::Options;
use trunkline::{Engine, EngineOptions};

/// Limit that only a hanging test reaches.
pub const PATIENCE: Duration = Duration::from_secs(60);
pub const CUT_OFF: Option<Duration> = Some(PATIENCE);

/// Options of a stream endpoint that uses the engine as its directory.
pub fn options(engine: &Engine, peer: Option<&str>) -> Options {
    let socket = engine.local_sockets().remove(0);
    let socket = socket.as_path();
    let port = socket.file_stem().unwrap().to_str().unwrap();
    Options {
        peer: peer.map(str::to_owned),
        timeout: CUT_OFF,
        directory_port: port.parse().unwrap(),
        sockets: Some(socket.parent().unwrap().to_owned()),
        ..Options::default()
    }
}

/// An engine that listens, so that streams find it.
pub fn listening() -> Engine {
    let options = EngineOptions {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        ..EngineOptions::default()
    };
    Engine::start(options).unwrap()
}

/// Waits until `updates` are in the file of a recorder, or lost.
pub fn wait_for(recorder: &VariableRecorder, updates: u64) {
    let (_stopper, stopped) = stopper();
    for _ in 0..6000 {
        let progress = recorder.status().progress;
        if progress.in_file + progress.lost >= updates {
            return;
        }
        assert!(!stopped.wait_for(Duration::from_millis(10)));
    }
    panic!("{:?}", recorder.status());
}
