//! Definitions of libraries, as Python programs write them.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use trunkline::types::definition::Properties;
use trunkline::types::text::parse_type;
use trunkline::types::{Access, LibraryDefinition, VariableDefinition};

use crate::values;

/// Path, type and options of a variable.
pub(crate) type Row<'py> = (String, String, Bound<'py, PyDict>);

/// Builds a library. The options of a variable are `description`, `units`, `range`, `precision`,
/// `access`, `initial` and `retain`.
pub(crate) fn library(name: &str, rows: &[Row<'_>]) -> PyResult<LibraryDefinition> {
    let variables = rows
        .iter()
        .map(|(path, data_type, options)| definition(path, data_type, options));
    Ok(LibraryDefinition {
        name: name.to_owned(),
        description: String::new(),
        variables: variables.collect::<PyResult<_>>()?,
    })
}

fn definition(
    path: &str,
    data_type: &str,
    options: &Bound<'_, PyDict>,
) -> PyResult<VariableDefinition> {
    let data_type =
        parse_type(data_type).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let mut properties = Properties::new(data_type);
    for (key, value) in options.iter() {
        let key: String = key.extract()?;
        match key.as_str() {
            "description" => properties.description = value.extract()?,
            "units" => properties.units = value.extract()?,
            "range" => properties.range = value.extract()?,
            "precision" => properties.precision = value.extract()?,
            "retain" => properties.retain = value.extract()?,
            "initial" => {
                properties.initial = Some(values::from_python(&value, &properties.data_type)?);
            }
            "access" => {
                properties.access = match value.extract::<String>()?.as_str() {
                    "read-write" => Access::ReadWrite,
                    "read-only" => Access::ReadOnly,
                    "write-only" => Access::WriteOnly,
                    other => {
                        return Err(PyValueError::new_err(format!(
                            "{other:?} is no access; it is read-write, read-only or write-only"
                        )));
                    }
                };
            }
            other => {
                return Err(PyValueError::new_err(format!(
                    "a variable has no option {other:?}"
                )));
            }
        }
    }
    Ok(VariableDefinition {
        path: path.to_owned(),
        properties: Arc::new(properties),
    })
}
