//! Reads the properties of a variable from its tables (`draft`), and checks them against the type
//! (`resolve`).
//!
//! ```text
//! [defaults] ----+
//! [[variable]] --+--> Draft, later ones win --> resolve: fits the type? --> Properties
//! [[override]] --+
//! ```

mod alarm;
mod data_type;
mod draft;
mod fifo;
mod initial;
mod resolve;
mod scale;

use crate::source::Place;

pub(crate) use draft::{DESCRIPTION_BYTES_MAX, Draft, SOURCE_BYTES_MAX, TextMode};
pub(crate) use resolve::{IoNames, Resolver, check_source};

/// The table that a property comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layer {
    /// `[defaults]`. A default is ignored if the type of a variable cannot have the property.
    Defaults,
    /// The variable's own table. Only this table can have placeholders.
    Own,
    /// `[[override]]`.
    Override,
}

/// A property with its place and layer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Located<T> {
    pub place: Place,
    pub layer: Layer,
    pub value: T,
}
