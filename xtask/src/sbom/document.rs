//! The document in CycloneDX 1.6, as JSON.

use serde_json::{Value as Json, json};

use super::facts::Facts;
use super::lock::{Lock, LockedPackage};

/// Writes the document of `program`, which is one of the locked packages.
pub(super) fn write(lock: &Lock, facts: &Facts, program: &str) -> Result<String, String> {
    let described = lock.packages.iter().find(|p| p.name == program);
    let described = described.ok_or(format!("Cargo.lock has no package `{program}`"))?;
    let components = lock.packages.iter().filter(|p| *p != described);
    let dependencies: Result<Vec<Json>, String> =
        lock.packages.iter().map(|p| edges(p, lock)).collect();
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": component(described, facts, "application") },
        "components": components.map(|p| component(p, facts, "library")).collect::<Vec<_>>(),
        "dependencies": dependencies?,
    });
    Ok(format!("{document:#}\n"))
}

fn component(package: &LockedPackage, facts: &Facts, kind: &str) -> Json {
    let use_ = facts.use_of(package);
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version,
        "scope": use_.scope(),
    });
    if let Some(checksum) = &package.checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some(licence) = facts.licence_of(package) {
        component["licenses"] = json!([{ "expression": licence }]);
    }
    // Crates of this repository are not published, so no registry has them.
    if package.source.is_some() {
        component["purl"] = reference(package).into();
    }
    if let Some(address) = facts.repository_of(package) {
        component["externalReferences"] = json!([{ "type": "vcs", "url": address }]);
    }
    component["properties"] = json!([{ "name": "trunkline:use", "value": use_.name() }]);
    component
}

fn edges(package: &LockedPackage, lock: &Lock) -> Result<Json, String> {
    let targets: Result<Vec<String>, String> = package
        .dependencies
        .iter()
        .map(|dependency| {
            let found = lock.find(dependency);
            found.map(reference).ok_or(format!(
                "Cargo.lock: {} depends on `{dependency}`, which is not in it",
                package.name
            ))
        })
        .collect();
    Ok(json!({ "ref": reference(package), "dependsOn": targets? }))
}

/// A package URL. `+` of a version's build metadata is a reserved character there.
fn reference(package: &LockedPackage) -> String {
    let version = package.version.replace('+', "%2B");
    format!("pkg:cargo/{}@{version}", package.name)
}
