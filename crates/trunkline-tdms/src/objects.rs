//! The state of objects after the segments so far: their properties, the current list of objects,
//! which of those have data, and the layout of that data.

use std::collections::{BTreeMap, HashMap};

use crate::data_type::TdmsType;
use crate::fault::Fault;
use crate::layout::Active;
use crate::metadata::{BlockCursor, BlockError};
use crate::open::Limits;
use crate::path::ObjectPath;
use crate::property::Properties;
use crate::raw_index::{self, Entry, RawIndex};
use crate::read_at::ReadAt;

#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) path: ObjectPath,
    pub(crate) properties: Properties,
    /// The layout of its data, as last described.
    index: Option<RawIndex>,
    has_data: bool,
    /// Number of the list in which it was last named.
    list_number: u64,
    /// Its place in that list.
    place: u32,
    /// Number of the block in which it was last named.
    block_number: u64,
    /// Number of losses before its data was last described; see [`Objects::record_loss`].
    losses_before: u64,
    pub(crate) data_type: TdmsType,
}

/// All objects, in the order in which they were first named.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    all: Vec<Object>,
    numbers: HashMap<ObjectPath, u32>,
    /// The numbers of the objects of the current list that have data, by their place in the list.
    /// Kept separately because most lists are long and change little: objects without data need not
    /// be visited for every segment.
    active: BTreeMap<u32, u32>,
    /// Number of objects in the current list.
    list_len: u32,
    list_number: u64,
    block_number: u64,
    /// Number of block entries read since the last call of [`Objects::take_listed`].
    listed: u64,
    is_list_lost: bool,
    losses: u64,
}

/// The effect of an entry of a block.
pub(crate) struct EntryEffect {
    /// True if the layout of the segment may have changed.
    pub(crate) is_changed: bool,
    /// The path of the object, if an earlier entry of the block named it too.
    pub(crate) duplicate: Option<ObjectPath>,
}

impl Objects {
    pub(crate) fn begin_list(&mut self) {
        self.active.clear();
        self.list_len = 0;
        self.list_number += 1;
        self.is_list_lost = false;
    }

    pub(crate) fn begin_block(&mut self) {
        self.block_number += 1;
    }

    /// Records that a block could not be read to its end, or that segments were skipped. The list
    /// is unknown until a new one begins, and the layout of an object until it is described again.
    pub(crate) fn record_loss(&mut self) {
        self.is_list_lost = true;
        self.losses += 1;
    }

    pub(crate) fn is_list_lost(&self) -> bool {
        self.is_list_lost
    }

    pub(crate) fn take_listed(&mut self) -> u64 {
        std::mem::take(&mut self.listed)
    }

    pub(crate) fn active_len(&self) -> u64 {
        self.active.len() as u64
    }

    /// Returns the objects that have data, in the order of the list.
    pub(crate) fn active(&self) -> impl Iterator<Item = Active<'_>> + Clone {
        self.active.values().filter_map(|number| {
            let object = self.all.get(*number as usize)?;
            Some(Active {
                object: *number,
                path: &object.path,
                index: object.index.as_ref()?,
            })
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Object> {
        self.all.iter()
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Object> {
        self.all.get(number as usize)
    }

    pub(crate) fn number(&self, path: &ObjectPath) -> Option<u32> {
        self.numbers.get(path).copied()
    }

    /// Reads one entry of a block.
    pub(crate) fn read_entry<R: ReadAt + ?Sized>(
        &mut self,
        block: &mut BlockCursor<'_, R>,
        limits: &Limits,
    ) -> Result<EntryEffect, BlockError> {
        let position = block.position();
        let path = ObjectPath::parse(block.string(limits.path_bytes_max)?)
            .map_err(|error| block.refuse(position, error.into()))?;
        let number = self
            .ensure(&path, limits)
            .map_err(|fault| block.refuse(position, fault))?;
        let (list, at_block) = (self.list_number, self.block_number);
        let Some(object) = self.all.get_mut(number as usize) else {
            return Err(block.bad("an object that is not known"));
        };
        let duplicate = (object.block_number == at_block).then(|| path.clone());
        object.block_number = at_block;
        let is_new = object.list_number != list;
        if is_new {
            object.list_number = list;
            object.place = self.list_len;
            self.list_len += 1;
        }
        self.listed += 1;
        let position = block.position();
        let entry = raw_index::read(block, &path)?;
        // If the object is new in this list, its `has_data` may come from an earlier list.
        let had_data = object.has_data && !is_new;
        let is_changed = match entry {
            Entry::NoData => {
                object.has_data = false;
                self.active.remove(&object.place);
                had_data
            }
            Entry::AsBefore => {
                if object.index.is_none() {
                    return Err(block.refuse(position, Fault::NothingBefore { path }));
                }
                if object.losses_before < self.losses {
                    // Its previous description may be in a part that could not be read.
                    return Err(block.bad("the segment relies on metadata that could not be read"));
                }
                object.has_data = true;
                self.active.insert(object.place, number);
                !had_data
            }
            Entry::Described(index) => {
                let now = index.data_type();
                let before = object.data_type;
                if before != now && before != TdmsType::Void && now != TdmsType::Void {
                    let fault = Fault::TypeChange { path, before, now };
                    return Err(block.refuse(position, fault));
                }
                if now != TdmsType::Void {
                    object.data_type = now;
                }
                let is_same = had_data && object.index.as_ref() == Some(&index);
                object.index = Some(index);
                object.has_data = true;
                self.active.insert(object.place, number);
                object.losses_before = self.losses;
                !is_same
            }
        };
        // A name and a type take at least 8 bytes.
        let properties = block.count(8)?;
        for _ in 0..properties {
            let (name, value) = block.property()?;
            object.properties.insert(name, value);
        }
        Ok(EntryEffect {
            is_changed,
            duplicate,
        })
    }

    /// Returns the number of an object. Creates it and its parents if they are new.
    fn ensure(&mut self, path: &ObjectPath, limits: &Limits) -> Result<u32, Fault> {
        if let Some(number) = self.numbers.get(path) {
            return Ok(*number);
        }
        if let Some(parent) = path.parent() {
            self.ensure(&parent, limits)?;
        }
        let limit = limits.objects_max;
        if self.all.len() >= limit {
            return Err(Fault::TooManyObjects { limit });
        }
        let number = self.all.len() as u32;
        self.all.push(Object {
            path: path.clone(),
            properties: Properties::new(),
            index: None,
            has_data: false,
            list_number: 0,
            place: 0,
            block_number: 0,
            losses_before: 0,
            data_type: TdmsType::Void,
        });
        self.numbers.insert(path.clone(), number);
        Ok(number)
    }
}
