//! Definitions of libraries, as Python programs write them.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyTuple};
use trunkline::config::{ConfigErrors, LoadOptions, parse_with};
use trunkline::types::LibraryDefinition;

use crate::values;

/// Path, type and options of a variable.
pub(crate) type Row<'py> = (String, String, Bound<'py, PyDict>);

/// Builds a library. The options of a variable are the keys that it has in a configuration file, with
/// the same rules; `initial` is a value of Python, without which the variable has no value yet.
pub(crate) fn library(name: &str, rows: &[Row<'_>]) -> PyResult<LibraryDefinition> {
    // The library is written as a file, because only the reader of files knows all keys.
    let mut text = format!("[library]\nname = {}\n", quoted(name));
    // The first line of each variable, from 1.
    let mut lines = Vec::with_capacity(rows.len());
    let mut line = 3;
    for (path, data_type, options) in rows {
        lines.push(line);
        line += 3;
        text.push_str(&format!(
            "[[variable]]\nname = {}\ntype = {}\n",
            quoted(path),
            quoted(data_type)
        ));
        for (key, value) in options.iter() {
            let key: String = key.extract()?;
            if key != "initial" && !value.is_none() {
                let value = toml(&value, DEPTH_MAX).map_err(|reason| {
                    PyValueError::new_err(format!("{path}: option {key}: {reason}"))
                })?;
                text.push_str(&format!("{} = {value}\n", quoted(&key)));
                line += 1;
            }
        }
    }
    let accepted = LoadOptions {
        accepts_unknown_io_servers: true,
        ..LoadOptions::default()
    };
    let plan = parse_with(&[("library", &text)], &accepted);
    let mut plan = plan.map_err(|errors| refusal(&errors, &lines, rows))?;
    let Some(mut library) = plan.libraries.pop() else {
        return Ok(LibraryDefinition {
            name: name.to_owned(),
            description: String::new(),
            variables: Vec::new(),
        });
    };
    for (variable, (_, _, options)) in library.variables.iter_mut().zip(rows) {
        let properties = Arc::make_mut(&mut variable.properties);
        properties.origin = String::new();
        properties.initial = match options.get_item("initial")? {
            Some(initial) if !initial.is_none() => {
                Some(values::from_python(&initial, &properties.data_type)?)
            }
            _ => None,
        };
    }
    Ok(library)
}

/// Returns the exception for the first error, with the name of the variable instead of a line.
fn refusal(errors: &ConfigErrors, lines: &[usize], rows: &[Row<'_>]) -> PyErr {
    let Some(error) = errors.errors.first() else {
        return PyValueError::new_err(errors.to_string());
    };
    let line = error.position.map_or(0, |position| position.line as usize);
    let index = lines.partition_point(|first| *first <= line);
    let row = index.checked_sub(1).and_then(|index| rows.get(index));
    let mut sentence = error.message();
    if let Some((path, _, _)) = row {
        sentence = format!("{path}: {sentence}");
    }
    if let Some(hint) = error.hint() {
        sentence = format!("{sentence}; {hint}");
    }
    PyValueError::new_err(sentence)
}

/// Depth of the lists and dictionaries of an option.
const DEPTH_MAX: usize = 16;

/// Returns an option as TOML, or the reason why it has no such form.
fn toml(value: &Bound<'_, PyAny>, depth: usize) -> Result<String, String> {
    let failed = |error: PyErr| error.to_string();
    if value.is_instance_of::<PyBool>() || value.is_instance_of::<PyInt>() {
        return Ok(value.str().map_err(failed)?.to_string().to_lowercase());
    }
    if value.is_instance_of::<PyFloat>() {
        let number: f64 = value.extract().map_err(failed)?;
        return Ok(format!("{number:?}").to_lowercase());
    }
    if let Ok(text) = value.extract::<String>() {
        return Ok(quoted(&text));
    }
    let depth = depth
        .checked_sub(1)
        .ok_or_else(|| format!("lists and dictionaries are nested more than {DEPTH_MAX} deep"))?;
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let mut elements = Vec::new();
        for element in value.try_iter().map_err(failed)? {
            elements.push(toml(&element.map_err(failed)?, depth)?);
        }
        return Ok(format!("[{}]", elements.join(", ")));
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let mut entries = Vec::new();
        for entry in mapping.items().map_err(failed)? {
            let (key, value): (String, Bound<'_, PyAny>) = entry.extract().map_err(failed)?;
            entries.push(format!("{} = {}", quoted(&key), toml(&value, depth)?));
        }
        return Ok(format!("{{ {} }}", entries.join(", ")));
    }
    // Scalars of NumPy become plain ones.
    match value.call_method0("item") {
        Ok(plain) if !plain.is(value) => toml(&plain, depth),
        _ => Err(format!(
            "a {} is no option; use a number, a text, a list or a dict",
            value.get_type()
        )),
    }
}

/// Returns a text as a basic string of TOML. In configuration files, braces enclose placeholders unless
/// they are doubled.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            '{' | '}' => quoted.extend([character, character]),
            control if control.is_control() => {
                quoted.push_str(&format!("\\U{:08X}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
