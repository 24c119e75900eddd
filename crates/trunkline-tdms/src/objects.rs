//! Stores the objects found in the segments so far: their properties, the current list of objects,
//! and the layout of their data.

use std::collections::{BTreeMap, HashMap};

use crate::data_type::TdmsType;
use crate::fault::Fault;
use crate::layout::ActiveChannel;
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
    /// Layout of the object's data, as last described.
    index: Option<RawIndex>,
    has_data: bool,
    /// Number of the last list that names the object.
    list_number: u64,
    /// Position of the object in that list.
    list_position: u32,
    /// Number of the last block that names the object.
    block_number: u64,
    /// Number of losses before the data was last described; see [`Objects::record_loss`].
    losses_before: u64,
    pub(crate) data_type: TdmsType,
}

/// All objects, in the order in which the file first names them.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    all: Vec<Object>,
    numbers: HashMap<ObjectPath, u32>,
    /// Numbers of the objects of the current list that have data, by their position in the list.
    /// They are stored separately, because lists can be long and change little. Objects without
    /// data are then not visited for every segment.
    active: BTreeMap<u32, u32>,
    /// Number of objects in the current list.
    list_len: u32,
    list_number: u64,
    block_number: u64,
    /// Number of entries read since the last call of [`Objects::take_entries_read`].
    entries_read: u64,
    is_list_lost: bool,
    losses: u64,
}

/// The effect of one entry of a block.
pub(crate) struct EntryEffect {
    /// True if the layout of the segment may have changed.
    pub(crate) is_changed: bool,
    /// Path of the object, if an earlier entry of the block also names it.
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

    /// Records that a block could not be read to the end or that segments were skipped. The list is
    /// then unknown until a new list begins, and the layout of an object is unknown until it is
    /// described again.
    pub(crate) fn record_loss(&mut self) {
        self.is_list_lost = true;
        self.losses += 1;
    }

    pub(crate) fn is_list_lost(&self) -> bool {
        self.is_list_lost
    }

    pub(crate) fn take_entries_read(&mut self) -> u64 {
        std::mem::take(&mut self.entries_read)
    }

    pub(crate) fn active_len(&self) -> u64 {
        self.active.len() as u64
    }

    /// Returns the objects that have data, in the order of the list.
    pub(crate) fn active(&self) -> impl Iterator<Item = ActiveChannel<'_>> + Clone {
        self.active.values().filter_map(|number| {
            let object = self.all.get(*number as usize)?;
            Some(ActiveChannel {
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
            .find_or_create(&path, limits)
            .map_err(|fault| block.refuse(position, fault))?;
        let (current_list, current_block) = (self.list_number, self.block_number);
        let Some(object) = self.all.get_mut(number as usize) else {
            return Err(block.unreadable("an object is unknown"));
        };
        let duplicate = (object.block_number == current_block).then(|| path.clone());
        object.block_number = current_block;
        let is_new = object.list_number != current_list;
        if is_new {
            object.list_number = current_list;
            object.list_position = self.list_len;
            self.list_len += 1;
        }
        self.entries_read += 1;
        let position = block.position();
        let entry = raw_index::read(block, &path)?;
        // If the object is new in this list, `has_data` may come from an earlier list.
        let had_data = object.has_data && !is_new;
        let is_changed = match entry {
            Entry::NoData => {
                object.has_data = false;
                self.active.remove(&object.list_position);
                had_data
            }
            Entry::Unchanged => {
                if object.index.is_none() {
                    return Err(block.refuse(position, Fault::NoPreviousDescription { path }));
                }
                if object.losses_before < self.losses {
                    // The previous description may be in a part that could not be read.
                    return Err(
                        block.unreadable("the segment relies on metadata that could not be read")
                    );
                }
                object.has_data = true;
                self.active.insert(object.list_position, number);
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
                self.active.insert(object.list_position, number);
                object.losses_before = self.losses;
                !is_same
            }
        };
        // A property has a name and a type, which need at least 8 bytes.
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

    /// Returns the number of an object. Creates the object and its parents if they are new.
    fn find_or_create(&mut self, path: &ObjectPath, limits: &Limits) -> Result<u32, Fault> {
        if let Some(number) = self.numbers.get(path) {
            return Ok(*number);
        }
        if let Some(parent) = path.parent() {
            self.find_or_create(&parent, limits)?;
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
            list_position: 0,
            block_number: 0,
            losses_before: 0,
            data_type: TdmsType::Void,
        });
        self.numbers.insert(path.clone(), number);
        Ok(number)
    }
}
