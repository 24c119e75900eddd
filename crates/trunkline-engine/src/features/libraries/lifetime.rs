//! Stopping and starting a library that stays deployed (DP-16).

use std::collections::HashMap;

use trunkline_types::{Level, Moment, Quality, Reason, Tick, Timestamp};

use super::deploy::wake_after;
use super::{Libraries, UnknownLibrary, index_of};
use crate::delivery::outbox::Wakes;
use crate::outcome::orders::LibraryState;
use crate::variable::Variable;
use crate::write::requalify_locked;

impl Libraries<'_> {
    /// Stops a library. Its variables keep their values with the quality `bad: process-missing`,
    /// and refuse every write until the library is started. Returns false if it was already
    /// stopped.
    pub fn stop(
        &self,
        name: &str,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<bool, UnknownLibrary> {
        let moment = Moment { now, wall };
        let _change = self.core.changes.lock();
        let Some((handles, _)) = self.set_state(name, LibraryState::Stopped)? else {
            return Ok(false);
        };
        let mut before_stop = Vec::new();
        for (place, handle) in handles.iter().enumerate() {
            wake_after(place, wakes);
            let Some(variable) = self.core.variable(*handle) else {
                continue;
            };
            let before = stop(&variable, moment, wakes);
            before_stop.extend(before.map(|quality| (*handle, quality)));
        }
        let mut libraries = self.table.list.lock();
        let place = index_of(&libraries, name)?;
        if let Some(library) = libraries.get_mut(place) {
            library.before_stop = before_stop;
        }
        Ok(true)
    }

    /// Sets the state of a library. Returns its handles, and the qualities recorded when it was
    /// stopped, or `None` if it was already in that state. The caller holds the lock for changes.
    fn set_state(
        &self,
        name: &str,
        state: LibraryState,
    ) -> Result<Option<HandlesAndQualities>, UnknownLibrary> {
        let mut libraries = self.table.list.lock();
        let place = index_of(&libraries, name)?;
        let Some(library) = libraries.get_mut(place).filter(|one| one.state != state) else {
            return Ok(None);
        };
        library.state = state;
        let before_stop = std::mem::take(&mut library.before_stop);
        Ok(Some((library.handles.clone(), before_stop)))
    }

    /// Starts a stopped library. As at a start of the engine, its variables have their earlier
    /// values as `uncertain: retained` until they are written. Their sources are requested to send
    /// fresh values. Returns false if the library was already running.
    pub fn start(
        &self,
        name: &str,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<bool, UnknownLibrary> {
        let moment = Moment { now, wall };
        let handles = {
            let _change = self.core.changes.lock();
            let Some((handles, before)) = self.set_state(name, LibraryState::Running)? else {
                return Ok(false);
            };
            // Looked up by handle, because the library may have been replaced while it was stopped.
            let before: HashMap<u32, Quality> = before.into_iter().collect();
            for (place, handle) in handles.iter().enumerate() {
                wake_after(place, wakes);
                let quality = before.get(handle).copied().unwrap_or(Quality::GOOD);
                if let Some(variable) = self.core.variable(*handle) {
                    start(&variable, quality, moment, wakes);
                }
            }
            self.of(&self.table.aliases).bind(name, moment, wakes);
            handles
        };
        // Called outside the lock, because a provider runs its own code.
        for handle in handles {
            let _is_provided = self.of(&self.table.providers).request(handle);
        }
        Ok(true)
    }
}

/// The handles of a library, and the qualities recorded when it was stopped.
type HandlesAndQualities = (Vec<u32>, Vec<(u32, Quality)>);

/// Stops one variable. Returns its quality unless it was good.
fn stop(variable: &Variable, moment: Moment, wakes: &mut Wakes) -> Option<Quality> {
    let mut state = variable.lock();
    let before = variable.update_locked(&state);
    if before.sequence > 0 {
        let quality = Quality::bad(Reason::ProcessMissing);
        requalify_locked(variable, &mut state, quality, moment, wakes);
    }
    variable.set_stopped(&state, true);
    variable.reconfigured(&state, moment, wakes);
    (before.sequence > 0 && !before.quality.is_good()).then_some(before.quality)
}

/// Starts one variable, whose quality before the stop was `before`.
fn start(variable: &Variable, before: Quality, moment: Moment, wakes: &mut Wakes) {
    let mut state = variable.lock();
    variable.set_stopped(&state, false);
    variable.reconfigured(&state, moment, wakes);
    if variable.sequence() == 0 {
        return;
    }
    if variable.is_forced() {
        let forced = Quality::GOOD.with_forced(true);
        return requalify_locked(variable, &mut state, forced, moment, wakes);
    }
    if variable.is_alias() {
        // An alias shows the value and quality of its target.
        return;
    }
    let quality = match before.level() {
        Level::Bad => before,
        Level::Good | Level::Uncertain => Quality::uncertain(Reason::Retained),
    };
    requalify_locked(variable, &mut state, quality, moment, wakes);
}
