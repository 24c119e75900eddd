//! Memory per variable: growth of the resident memory after deployment, and after each variable has
//! a value. Each point is measured in a new process.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use trunkline::types::{DataType, LibraryDefinition, VariableDefinition};

use super::{engine, library, name, resident_bytes, write_all};
use crate::Outcome;
use crate::record::Row;

/// The limit: a hash map from names to a value, two timestamps and a quality.
pub const MAP: &str = "hash-map";

/// Resident bytes before and after.
#[derive(Clone, Copy, Debug)]
struct Resident {
    before: f64,
    deployed: f64,
    written: f64,
}

impl Resident {
    fn enter(self, row: &mut Row, variables: usize) {
        let each = |bytes: f64| (bytes - self.before) / variables as f64;
        row.figure("deployed_bytes_per_variable", each(self.deployed));
        row.figure("bytes_per_variable", each(self.written));
        row.figure("added_mib", (self.written - self.before) / MIB);
        row.figure("resident_mib", self.written / MIB);
    }
}

const MIB: f64 = (1 << 20) as f64;

/// Measures an engine with variables of one type.
pub fn of_engine(variables: usize, kind: &str, row: &mut Row) -> Outcome<()> {
    let resident = || resident_bytes(std::process::id());
    let engine = engine()?;
    // The first variable of an engine also loads code and creates tables, which do not count.
    engine.deploy(&one())?;
    engine.variable::<f64>("warm/up")?.write(1.0)?;
    // The input exists before and after, so that only the memory of the engine counts.
    let library = library(variables, kind, false)?;
    let before = resident()?;
    let start = Instant::now();
    engine.deploy(&library)?;
    let deploy = start.elapsed();
    let deployed = resident()?;
    write_all(&engine, &library)?;
    let written = resident()?;
    row.figure("deploy_ms", deploy.as_secs_f64() * 1e3);
    let counted = engine.variable_count();
    row.require(counted == variables + 1, || {
        format!("{counted} variables are deployed")
    });
    Resident {
        before,
        deployed,
        written,
    }
    .enter(row, variables);
    drop(library);
    Ok(())
}

/// A library of one variable, deployed first so that all code is loaded.
fn one() -> LibraryDefinition {
    LibraryDefinition {
        name: "warm".to_owned(),
        description: String::new(),
        variables: vec![VariableDefinition::new("up", DataType::F64)],
    }
}

/// Measures a map that can look values up by name, and nothing more.
pub fn of_map(variables: usize, row: &mut Row) -> Outcome<()> {
    let resident = || resident_bytes(std::process::id());
    let mut map: HashMap<Box<str>, [u64; 4]> = HashMap::new();
    map.insert("warm/up".into(), [0; 4]);
    let before = resident()?;
    let start = Instant::now();
    for index in 0..variables {
        map.insert(name(index).into(), [index as u64; 4]);
    }
    row.figure("deploy_ms", start.elapsed().as_secs_f64() * 1e3);
    let written = resident()?;
    Resident {
        before,
        deployed: written,
        written,
    }
    .enter(row, variables);
    black_box(&map);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Other tests change the resident memory of this process too. So the test only checks the
    // arithmetic, and that every point can be measured.

    #[test]
    fn memory_is_divided_by_the_number_of_variables() {
        let mut row = Row::new("footprint", MAP, String::new(), "cross");
        Resident {
            before: MIB,
            deployed: 2.0 * MIB,
            written: 5.0 * MIB,
        }
        .enter(&mut row, 1024);
        assert_eq!(row.figures["deployed_bytes_per_variable"], 1024.0);
        assert_eq!(row.figures["bytes_per_variable"], 4096.0);
        assert_eq!(row.figures["added_mib"], 4.0);
    }

    #[test]
    fn engine_and_map_have_all_variables() {
        let mut row = Row::new("footprint", "trunkline", String::new(), "cross");
        of_engine(100, "f64x10", &mut row).unwrap();
        of_map(100, &mut row).unwrap();
        assert_eq!(row.invalid, Vec::<String>::new());
        assert!(row.figures.contains_key("bytes_per_variable"), "{row:?}");
    }
}
