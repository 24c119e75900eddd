//! Invalid aliases.

use trunkline_engine::{ALIAS_DEPTH_MAX, ALIASES_MAX, AliasFault, Wakes};
use trunkline_types::{Properties, Scope, Value};

use crate::rig::{Rig, applied, define, library_of};
use crate::{alias, alias_of, deploy, f64s, undeploy, value};

#[test]
fn cycles_are_refused_with_their_path_also_across_libraries() {
    let rig = Rig::new();
    let cycle = |path: &str| {
        Err(AliasFault::Cycle {
            path: path.to_owned(),
        })
    };
    assert_eq!(
        deploy(&rig, "a", vec![alias("x", "a/x")]),
        cycle("a/x -> a/x")
    );
    assert_eq!(
        deploy(&rig, "a", vec![alias("x", "a/y"), alias("y", "a/x")]),
        cycle("a/x -> a/y -> a/x")
    );
    rig.deploy("a", vec![alias("x", "b/x")]);
    rig.deploy("b", vec![alias("x", "c/x"), alias("z", "a/x")]);
    assert_eq!(
        deploy(&rig, "c", vec![alias("x", "b/z")]),
        cycle("a/x -> b/x -> c/x -> b/z -> a/x")
    );
    // Replacing c would close a cycle as well.
    rig.deploy("c", vec![define("x", f64s())]);
    let closing = library_of("c", vec![alias("x", "a/x")]);
    let (now, wall) = (rig.now(), rig.wall());
    let refused = rig.engine.libraries().deploy_retained(
        &closing,
        true,
        &|_, _| None,
        now,
        wall,
        &mut Wakes::new(),
    );
    assert!(refused.unwrap_err().to_string().contains("form a cycle"));
    // Nothing was changed.
    rig.write(&rig.variable("c/x"), 4.0);
    assert_eq!(value(&rig.variable("b/z")), Value::F64(4.0));
}

#[test]
fn alias_chains_and_fan_out_are_bounded() {
    let rig = Rig::new();
    rig.deploy("plant", vec![define("v0", f64s())]);
    let chain = |length: usize| {
        let aliases = (1..=length).map(|n| {
            let target = match n {
                1 => "plant/v0".to_owned(),
                n => format!("chain/v{}", n - 1),
            };
            alias(&format!("v{n}"), &target)
        });
        aliases.collect::<Vec<_>>()
    };
    let refused = deploy(&rig, "chain", chain(ALIAS_DEPTH_MAX + 1));
    assert_eq!(
        refused,
        Err(AliasFault::TooDeep {
            steps: ALIAS_DEPTH_MAX + 1,
            root: "plant/v0".to_owned()
        })
    );
    assert_eq!(deploy(&rig, "chain", chain(ALIAS_DEPTH_MAX)), Ok(()));
    let last = rig.variable(&format!("chain/v{ALIAS_DEPTH_MAX}"));
    assert_eq!(rig.write(&last, 1.0), applied(1));
    assert_eq!(value(&rig.variable("plant/v0")), Value::F64(1.0));
    undeploy(&rig, "chain");

    let crowd = |count: usize| {
        let aliases = (0..count).map(|n| alias(&format!("v{n}"), "plant/v0"));
        aliases.collect::<Vec<_>>()
    };
    assert_eq!(
        deploy(&rig, "crowd", crowd(ALIASES_MAX + 1)),
        Err(AliasFault::TooMany {
            root: "plant/v0".to_owned(),
            count: ALIASES_MAX + 1
        })
    );
    assert_eq!(deploy(&rig, "crowd", crowd(ALIASES_MAX)), Ok(()));
    // Direct aliases and aliases of an alias share the limit.
    assert!(matches!(
        deploy(&rig, "more", vec![alias("x", "crowd/v0")]),
        Err(AliasFault::TooMany { .. })
    ));
}

#[test]
fn invalid_aliases_are_refused_with_the_reason() {
    let rig = Rig::new();
    let url = deploy(&rig, "a", vec![alias("x", "tl://other/plant/x")]);
    assert_eq!(
        url.unwrap_err().to_string(),
        "the alias target tl://other/plant/x is a URL; an alias refers to a variable of the same engine: \
         write `library/path`"
    );
    let target = "plant/x#Units".to_owned();
    assert_eq!(
        deploy(&rig, "a", vec![alias("x", &target)]),
        Err(AliasFault::Field { target })
    );
    assert!(matches!(
        deploy(&rig, "a", vec![alias("x", "plant//x")]),
        Err(AliasFault::InvalidName { .. })
    ));
    for (key, properties) in [
        (
            "source",
            Properties {
                source: "plc:1".to_owned(),
                ..f64s()
            },
        ),
        (
            "initial",
            Properties {
                initial: Some(Value::F64(1.0)),
                ..f64s()
            },
        ),
        (
            "retain",
            Properties {
                retain: true,
                ..f64s()
            },
        ),
    ] {
        assert_eq!(
            deploy(
                &rig,
                "a",
                vec![define("x", alias_of("plant/x", properties))]
            ),
            Err(AliasFault::Contradicted { key })
        );
    }
    // A variable hidden from the network is not exposed by an alias.
    let hidden = Properties {
        scope: Scope::Process,
        ..f64s()
    };
    rig.deploy("own", vec![define("x", hidden)]);
    let refused = deploy(&rig, "a", vec![alias("x", "own/x")]);
    assert!(
        matches!(refused, Err(AliasFault::Mismatch { .. })),
        "{refused:?}"
    );
}
