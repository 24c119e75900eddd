//! Runs npTDMS, an independent reader of the format.

use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

const SCRIPT: &str = "
import json, sys
from nptdms import TdmsFile
file = TdmsFile.read(sys.argv[1])
def plain(value):
    return str(value) if 'datetime' in type(value).__name__ else getattr(value, 'item', lambda: value)()
print(json.dumps({
    group.name: {
        'type': group.properties['variable_type'],
        **{channel.name: [plain(value) for value in channel[:]] for channel in group.channels()},
    } for group in file.groups()
}))
";

/// Returns everything in a file, by group and channel, with the type of each group.
pub fn read(path: &Path) -> Json {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let python = target.join("nptdms/bin/python");
    let advice = "run `make nptdms`, which installs npTDMS in the target folder";
    assert!(python.exists(), "no {}; {advice}", python.display());
    let run = Command::new(python).args(["-c", SCRIPT]).arg(path).output();
    let run = run.unwrap();
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{stderr}");
    serde_json::from_slice(&run.stdout).unwrap()
}
