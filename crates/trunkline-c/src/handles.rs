//! The table of handles: checks every handle that a program passes, and finds its object.
//!
//! A handle is a number, never an address. A program that uses a handle after its end, or closes it
//! twice, gets an error instead of memory that belongs to something else:
//!
//! ```text
//!  63      56 55                             24 23                       0
//! +----------+---------------------------------+--------------------------+
//! |   kind   |           generation            |          slot            |
//! +----------+---------------------------------+--------------------------+
//! ```
//!
//! A slot is used again with the next generation, so the same number comes back after 2^32 uses of a
//! slot. Slots are used in the order in which they became free.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};

use crate::errors::{
    Failure, TL_ERROR_HANDLE, TL_ERROR_HANDLE_KIND, TL_ERROR_LIMIT, TL_ERROR_NULL,
};

/// Maximum number of objects that a program has at a time.
const SLOTS_MAX: usize = 1 << 24;

/// An object that a handle names.
pub(crate) trait Object: Send + Sync + Sized + 'static {
    const KIND: Kind;

    fn wrap(object: Arc<Self>) -> AnyObject;

    fn unwrap(object: &AnyObject) -> Option<&Arc<Self>>;
}

/// Defines the kinds of objects. The number of a kind is never 0, so no handle is 0.
macro_rules! kinds {
    ($($kind:ident($object:ty) = $number:literal, $name:literal;)+) => {
        /// The kind of an object, as its handle states it.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Kind {
            $($kind = $number,)+
        }

        impl Kind {
            /// Returns the name of a kind in messages.
            fn name(number: u64) -> Option<&'static str> {
                match number {
                    $($number => Some($name),)+
                    _ => None,
                }
            }
        }

        /// An object of any kind.
        #[derive(Clone)]
        pub(crate) enum AnyObject {
            $($kind(Arc<$object>),)+
        }

        $(
            impl Object for $object {
                const KIND: Kind = Kind::$kind;

                fn wrap(object: Arc<Self>) -> AnyObject {
                    AnyObject::$kind(object)
                }

                #[allow(unreachable_patterns, reason = "there may be a single kind")]
                fn unwrap(object: &AnyObject) -> Option<&Arc<Self>> {
                    match object {
                        AnyObject::$kind(object) => Some(object),
                        _ => None,
                    }
                }
            }
        )+
    };
}

kinds! {
    Engine(crate::engine::EngineObject) = 1, "an engine";
    Client(crate::client::ClientObject) = 2, "a client";
    Readings(crate::readings::ReadingsObject) = 3, "readings";
    Writes(crate::writes::WritesObject) = 4, "writes";
    Subscription(crate::subscription::SubscriptionObject) = 5, "a subscription";
    StreamWriter(crate::stream::End<crate::stream::AnyWriter>) = 6, "a stream writer";
    StreamReader(crate::stream::End<crate::stream::AnyReader>) = 7, "a stream reader";
    Recorder(crate::record::RecorderObject) = 8, "a recorder";
    History(crate::history::HistoryObject) = 9, "a query of history";
    Provider(crate::provider::ProviderObject) = 10, "an I/O server";
    HostVariable(crate::engine::HostVariableObject) = 11, "a hosted variable";
    StreamOptions(crate::stream::options::StreamOptionsObject) = 12, "options of a stream";
    Alarms(crate::alarms::AlarmListObject) = 13, "a list of alarms";
    AlarmChanges(crate::alarms::AlarmChangesObject) = 14, "changes of alarms";
    Audit(crate::audit::AuditObject) = 15, "a query of the audit trail";
    Controls(crate::control::ControlListObject) = 16, "a list of controls";
}

#[derive(Default)]
struct Slot {
    generation: u32,
    object: Option<AnyObject>,
}

#[derive(Default)]
struct Table {
    slots: Vec<Slot>,
    free: VecDeque<u32>,
}

static TABLE: RwLock<Table> = RwLock::new(Table {
    slots: Vec::new(),
    free: VecDeque::new(),
});

/// Adds an object, and returns its handle.
pub(crate) fn add<O: Object>(object: O) -> Result<u64, Failure> {
    let object = O::wrap(Arc::new(object));
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let index = match table.free.pop_front() {
        Some(index) => index,
        None if table.slots.len() < SLOTS_MAX => {
            table.slots.push(Slot::default());
            (table.slots.len() - 1) as u32
        }
        None => {
            return Err(Failure::new(
                TL_ERROR_LIMIT,
                format!(
                    "this program has {SLOTS_MAX} open handles; close those that it no longer needs"
                ),
            ));
        }
    };
    let slot = &mut table.slots[index as usize];
    slot.object = Some(object);
    Ok(handle_of(O::KIND, slot.generation, index))
}

/// Finds the object of a handle.
pub(crate) fn find<O: Object>(handle: u64) -> Result<Arc<O>, Failure> {
    let (generation, index) = check::<O>(handle)?;
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let slot = table.slots.get(index as usize);
    let slot = slot.filter(|slot| slot.generation == generation);
    let object = slot.and_then(|slot| slot.object.as_ref());
    object
        .and_then(O::unwrap)
        .cloned()
        .ok_or_else(|| closed::<O>(handle))
}

/// Ends a handle, and returns its object. Calls that use the object keep it until they return.
pub(crate) fn remove<O: Object>(handle: u64) -> Result<Arc<O>, Failure> {
    let (generation, index) = check::<O>(handle)?;
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let slot = table.slots.get_mut(index as usize);
    let slot = slot.filter(|slot| slot.generation == generation);
    let slot = slot.filter(|slot| slot.object.as_ref().and_then(O::unwrap).is_some());
    let slot = slot.ok_or_else(|| closed::<O>(handle))?;
    slot.generation = slot.generation.wrapping_add(1);
    let object = slot.object.take();
    table.free.push_back(index);
    drop(table);
    let object = object.as_ref().and_then(O::unwrap).cloned();
    object.ok_or_else(|| closed::<O>(handle))
}

fn handle_of(kind: Kind, generation: u32, index: u32) -> u64 {
    (kind as u64) << 56 | u64::from(generation) << 24 | u64::from(index)
}

/// Returns the generation and the slot, if the handle is one of an object of this kind.
fn check<O: Object>(handle: u64) -> Result<(u32, u32), Failure> {
    let expected = Kind::name(O::KIND as u64).unwrap_or_default();
    if handle == 0 {
        return Err(Failure::new(
            TL_ERROR_NULL,
            format!(
                "the handle of {expected} is 0; pass the handle that its create function stored"
            ),
        ));
    }
    match Kind::name(handle >> 56) {
        Some(_) if handle >> 56 == O::KIND as u64 => {
            Ok(((handle >> 24) as u32, handle as u32 & 0xff_ffff))
        }
        Some(given) => Err(Failure::new(
            TL_ERROR_HANDLE_KIND,
            format!(
                "this function needs the handle of {expected}, and was given the handle of {given}; check the order of the arguments"
            ),
        )),
        None => Err(Failure::new(
            TL_ERROR_HANDLE,
            format!("{handle:#x} is not a handle; pass a handle that this library has stored"),
        )),
    }
}

fn closed<O: Object>(handle: u64) -> Failure {
    let expected = Kind::name(O::KIND as u64).unwrap_or_default();
    Failure::new(
        TL_ERROR_HANDLE,
        format!(
            "the handle {handle:#x} of {expected} was closed, or never existed; use a handle only until it is closed, and close it once"
        ),
    )
}
