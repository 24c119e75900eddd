//! Tests that the number of names limits the memory of a watch, whatever frames the engine sends.

use trunkline_proto::message::watch::AppearedVariable;
use trunkline_proto::{Fault, FaultCode};
use trunkline_types::{Access, DataType};

use super::Watch;

fn variable(name: &str, handle: u32) -> AppearedVariable<'_> {
    AppearedVariable {
        handle,
        name,
        data_type: DataType::F64,
        access: Access::ReadWrite,
    }
}

/// Behaviour: B-32, H-19.
#[test]
fn name_with_changing_handles_is_stored_once() {
    let mut watch = Watch::new("a/*");
    for handle in 0..1_000 {
        watch.appeared(&variable("a/x", handle));
    }
    let sizes = (
        watch.names.len(),
        watch.by_handle.len(),
        watch.pending.len(),
    );
    assert_eq!(sizes, (1, 1, 1));
    watch.vanished(7);
    assert!(watch.next().is_some(), "the name keeps its newest handle");
    watch.vanished(999);
    assert_eq!(watch.by_handle.len(), 0);
}

/// Each connection lists too many names, and the program takes no events.
/// Behaviour: B-32, H-19.
#[test]
fn too_many_names_queue_only_the_error() {
    let mut watch = Watch::new("a/*");
    for connection in 0..3 {
        for (handle, name) in ["a/x", "a/y", "a/z"].into_iter().enumerate() {
            watch.appeared(&variable(name, handle as u32));
        }
        watch.end_listing();
        watch.forget_names();
        watch.fail(Fault::from(FaultCode::LimitReached));
        assert_eq!(watch.pending.len(), 1, "connection {connection}");
    }
    assert!(watch.next().is_some());
    assert_eq!(watch.next(), None);
}
