//! Sends every kind of frame with the rights of every role, and checks the answer and the effect.
//!
//! ```text
//! kind of frame x verb  x  role  x  { role everywhere, rules on own/** }  x  { own, shown, foreign }
//! ```
//!
//! [`rows`] promises for each request which right it needs, independently of the gate. It has no
//! catch-all arm, so a new kind of frame does not compile without a row.

mod plant;
mod requests;

use trunkline_access::{Action, Actions, Effect, Role};
use trunkline_engine::Rights;
use trunkline_proto::FrameKind;
use trunkline_serve::gate::{Requirement, requirement};

pub use self::plant::audit_page;
use self::plant::{Plant, Seen};
use self::requests as send;
use crate::rig::access::rights_of;

/// What a request needs, as the documentation promises it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Promise {
    /// No right. The request has no effect on any variable.
    Nothing,
    /// The action on the variable, which does not exist for a client that may not read it.
    Name(Action),
    /// The action on the variable, which is left out of the answer otherwise.
    Listed(Action),
    /// The action on some variable, and the variables without it are left out.
    Rows(Action),
    /// The action on the library.
    Library(Action),
    /// The action on the I/O server, whose variable it then provides if it may write it.
    IoServer(Action),
    /// The action on the engine.
    Engine(Action),
    /// The action on every possible variable.
    EveryName(Action),
    /// The session ends.
    End,
    /// The engine does not accept the frame, and the session ends.
    NotFromClients,
}

/// A request: its verb, what it needs, and how to send it.
type Row = (&'static str, Promise, fn(&mut Plant) -> Seen);

/// Returns the requests of a kind of frame.
fn rows(kind: FrameKind) -> Vec<Row> {
    use Action::{
        Administer, Alarm, Audit, Configure, Force, History, Read, Record, Subscribe, Write,
    };
    use Promise::{
        End, Engine, EveryName, IoServer, Library, Listed, Name, NotFromClients, Nothing, Rows,
    };
    match kind {
        FrameKind::Hello => vec![
            ("first", Nothing, send::was_welcomed),
            ("second", End, send::second_hello),
        ],
        FrameKind::Goodbye => vec![("", End, send::goodbye)],
        FrameKind::Keepalive => vec![("", Nothing, send::keepalive)],
        FrameKind::Ack => vec![("", Nothing, send::ack)],
        // The frames of which it is a part need their own rights.
        FrameKind::Part => vec![("of a write", Name(Write), send::write_in_parts)],
        FrameKind::Compare => vec![("", Nothing, send::compare)],
        FrameKind::Unsubscribe => vec![("", Nothing, send::unsubscribe)],
        FrameKind::Close => vec![("", Nothing, send::close)],
        FrameKind::Unwatch => vec![("", Nothing, send::unwatch)],
        FrameKind::Flush => vec![("", Nothing, send::flush)],
        FrameKind::ProviderAnswer => vec![("", Nothing, send::provider_answer)],
        FrameKind::Engine => vec![("", Listed(Read), send::engine)],
        FrameKind::Open => vec![
            ("with a reading", Name(Read), send::open),
            (
                "with a subscription",
                Name(Subscribe),
                send::open_subscribed,
            ),
            (
                "with a subscription for a recording",
                Name(Record),
                send::open_recorded,
            ),
            ("of a field", Name(Read), send::open_field),
        ],
        FrameKind::Read => vec![("", Name(Read), send::read)],
        FrameKind::Info => vec![("", Name(Read), send::info)],
        FrameKind::Why => vec![("", Listed(Read), send::why)],
        FrameKind::Snapshot => vec![("", Name(Read), send::snapshot)],
        FrameKind::Subscribe => vec![
            ("", Name(Subscribe), send::subscribe),
            ("for a recording", Name(Record), send::subscribe_recorded),
        ],
        FrameKind::Find => vec![
            ("by pattern", Listed(Read), send::find),
            ("by condition", Listed(Read), send::find_by_condition),
        ],
        FrameKind::Watch => vec![
            ("present names", Listed(Read), send::watch),
            ("later names", Listed(Read), send::watch_later_names),
        ],
        FrameKind::Write => vec![
            ("put", Name(Write), send::put),
            ("put to a device", Name(Write), send::put_to_device),
            ("set", Name(Write), send::set),
            ("send", Name(Write), send::send),
            ("request", Name(Write), send::request),
            ("force", Name(Force), send::force),
            ("unforce", Name(Force), send::unforce),
        ],
        FrameKind::GroupWrite => vec![("", Name(Write), send::group)],
        FrameKind::Lease => vec![
            ("acquire", Name(Write), send::acquire),
            ("renew", Name(Write), send::renew),
            ("release", Name(Write), send::release),
        ],
        FrameKind::Control => vec![
            ("list", Listed(Read), send::control_list),
            ("take", Library(Write), send::control_take),
            (
                "take as a supervisor",
                Library(Force),
                send::control_supervise,
            ),
            ("request", Library(Write), send::control_request),
            ("release what another has", Nothing, send::control_release),
            ("give what another has", Nothing, send::control_give),
            ("follow", Nothing, send::control_follow),
        ],
        FrameKind::RequestValue => vec![("", Name(Write), send::request_value)],
        FrameKind::Publish => vec![("", Name(Write), send::publish)],
        FrameKind::Provide => vec![("", IoServer(Configure), send::provide)],
        FrameKind::AlarmAct => vec![("", Name(Alarm), send::acknowledge)],
        FrameKind::Alarms => vec![("", Listed(Read), send::alarms)],
        FrameKind::AlarmJournal => vec![("", Rows(History), send::alarm_journal)],
        FrameKind::History => vec![("", Rows(History), send::history)],
        FrameKind::Audit => vec![("", Engine(Audit), send::audit)],
        FrameKind::Deploy => vec![
            ("new", Library(Configure), send::deploy),
            ("replace", Library(Configure), send::replace),
            (
                "in several frames",
                Library(Configure),
                send::deploy_in_frames,
            ),
        ],
        FrameKind::Order => vec![
            ("start", Library(Configure), send::start),
            ("stop", Library(Configure), send::stop),
            ("undeploy", Library(Configure), send::undeploy),
            ("stop the engine", Engine(Administer), send::stop_engine),
            (
                "reload the configuration",
                Engine(Administer),
                send::reload_engine,
            ),
        ],
        FrameKind::Pair => vec![("", Engine(Administer), send::pair)],
        FrameKind::Forcing => vec![
            ("list", Rows(Read), send::forcing_list),
            ("on", EveryName(Force), send::forcing_on),
            ("off", EveryName(Force), send::forcing_off),
            ("clear", EveryName(Force), send::forcing_clear),
        ],
        FrameKind::Welcome
        | FrameKind::Refused
        | FrameKind::Opened
        | FrameKind::Subscribed
        | FrameKind::Closed
        | FrameKind::Readings
        | FrameKind::WriteAnswers
        | FrameKind::Updates
        | FrameKind::Lost
        | FrameKind::Ended
        | FrameKind::Gone
        | FrameKind::Names
        | FrameKind::InfoAnswer
        | FrameKind::WhyAnswer
        | FrameKind::EngineAnswer
        | FrameKind::Fault
        | FrameKind::Requested
        | FrameKind::Provided
        | FrameKind::ProviderWrite
        | FrameKind::ProviderRequest
        | FrameKind::ProviderBind
        | FrameKind::Report
        | FrameKind::Check
        | FrameKind::Repaired
        | FrameKind::GroupAnswer
        | FrameKind::SnapshotAnswer
        | FrameKind::Leased
        | FrameKind::Controlled
        | FrameKind::Appeared
        | FrameKind::Vanished
        | FrameKind::Flushed
        | FrameKind::Forced
        | FrameKind::AuditPage
        | FrameKind::AlarmPage
        | FrameKind::AlarmActed
        | FrameKind::AlarmEntries
        | FrameKind::HistoryRows
        | FrameKind::Paired
        | FrameKind::StreamTicket
        | FrameKind::StreamRegistered
        | FrameKind::StreamArrived
        | FrameKind::StreamEndpoints
        | FrameKind::StreamLookup
        | FrameKind::StreamRefused
        | FrameKind::StreamRegister
        | FrameKind::StreamHello
        | FrameKind::StreamWelcome
        | FrameKind::StreamData
        | FrameKind::StreamAck
        | FrameKind::StreamAsk
        | FrameKind::StreamEnd
        | FrameKind::StreamAbort
        | FrameKind::StreamKeepalive
        | FrameKind::StreamGoodbye
        | FrameKind::StreamList
        | FrameKind::StreamStatus
        | FrameKind::StreamBell
        | FrameKind::StreamLost
        | FrameKind::StreamLogin
        | FrameKind::StreamPeer
        | FrameKind::StreamVisitor
        | FrameKind::StreamRevoked => vec![("", NotFromClients, send::not_from_clients)],
    }
}

/// The actions of the roles, as in the reference of access.
const ROLES: [(Option<Role>, &[Action]); 5] = [
    (None, &[]),
    (
        Some(Role::Viewer),
        &[Action::Read, Action::Subscribe, Action::History],
    ),
    (
        Some(Role::Operator),
        &[
            Action::Read,
            Action::Subscribe,
            Action::History,
            Action::Write,
            Action::Alarm,
        ],
    ),
    (
        Some(Role::Engineer),
        &[
            Action::Read,
            Action::Subscribe,
            Action::History,
            Action::Write,
            Action::Alarm,
            Action::Force,
            Action::Configure,
            Action::Stream,
            Action::Record,
            Action::Audit,
        ],
    ),
    (
        Some(Role::Admin),
        &[
            Action::Read,
            Action::Subscribe,
            Action::History,
            Action::Write,
            Action::Alarm,
            Action::Force,
            Action::Configure,
            Action::Stream,
            Action::Record,
            Action::Audit,
            Action::Administer,
        ],
    ),
];

/// The client's rights.
#[derive(Clone, Copy, Debug)]
enum Scope {
    /// Its account has the role.
    Role,
    /// Rules grant the actions of the role on `own/**` and on the I/O server `own-plc`, and `read` on
    /// `shown/**`.
    Rules,
}

/// The library of the variable that the request concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Library {
    Own,
    Shown,
    Foreign,
}

impl Library {
    const ALL: [Self; 3] = [Self::Own, Self::Shown, Self::Foreign];

    const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Shown => "shown",
            Self::Foreign => "foreign",
        }
    }
}

/// A cell of the matrix.
#[derive(Clone, Copy, Debug)]
struct Cell {
    role: Option<Role>,
    actions: &'static [Action],
    scope: Scope,
    library: Library,
}

/// How a request is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Done,
    Denied,
    /// As if the variable did not exist.
    Missing,
    /// The session ends.
    Ended,
}

impl Cell {
    fn all() -> impl Iterator<Item = Self> {
        ROLES.into_iter().flat_map(|(role, actions)| {
            [Scope::Role, Scope::Rules]
                .into_iter()
                .flat_map(move |scope| {
                    Library::ALL.into_iter().map(move |library| Self {
                        role,
                        actions,
                        scope,
                        library,
                    })
                })
        })
    }

    fn rights(self, kind: FrameKind) -> Rights {
        let read = match self.actions.contains(&Action::Read) {
            true => Actions::of(&[Action::Read]),
            false => return rights_of(None, &[]),
        };
        let grant = |actions: Actions, pattern| (Effect::Grant, actions, pattern);
        let (role, mut rules) = match self.scope {
            Scope::Role => (self.role, Vec::new()),
            Scope::Rules => {
                let own = ["own/**", "_io/own-plc/**", "_io/device/**"];
                let own = own.map(|pattern| grant(Actions::of(self.actions), pattern));
                let shown = grant(read, "shown/**");
                (None, own.into_iter().chain([shown]).collect())
            }
        };
        if kind == FrameKind::Publish {
            // The request needs a right on the variable, once the client provides the I/O server.
            rules.push(grant(read | Action::Configure, "_io/**"));
        }
        rights_of(role, &rules)
    }

    /// Returns true if the client may perform the action on the variable.
    fn permits(self, action: Action) -> bool {
        let is_in_reach = match (self.scope, self.library) {
            (Scope::Role, _) | (Scope::Rules, Library::Own) => true,
            (Scope::Rules, Library::Shown) => action == Action::Read,
            (Scope::Rules, Library::Foreign) => false,
        };
        is_in_reach && self.permits_somewhere(action)
    }

    fn permits_somewhere(self, action: Action) -> bool {
        self.actions.contains(&action)
    }

    /// Returns true if the client may perform the action on the engine, and on every variable.
    fn permits_everywhere(self, action: Action) -> bool {
        matches!(self.scope, Scope::Role) && self.actions.contains(&action)
    }

    /// Returns the answer and the effect that the promise demands.
    fn expected(self, promise: Promise) -> Seen {
        let whole = |is_permitted: bool| match is_permitted {
            true => (Answer::Done, true),
            false => (Answer::Denied, false),
        };
        let (answer, has_effect) = match promise {
            Promise::Nothing => (Answer::Done, false),
            Promise::Name(_) if !self.permits(Action::Read) => (Answer::Missing, false),
            Promise::Name(action) | Promise::Library(action) | Promise::IoServer(action) => {
                whole(self.permits(action))
            }
            Promise::Listed(action) => (Answer::Done, self.permits(action)),
            Promise::Rows(action) if !self.permits_somewhere(action) => (Answer::Denied, false),
            Promise::Rows(action) => (Answer::Done, self.permits(action)),
            Promise::Engine(action) | Promise::EveryName(action) => {
                whole(self.permits_everywhere(action))
            }
            Promise::End | Promise::NotFromClients => (Answer::Ended, false),
        };
        Seen { answer, has_effect }
    }
}

/// Every request of every role is answered, and has an effect, exactly as the documentation promises.
///
/// Behaviour: B-82, H-18.
/// Failure mode: F17.
#[test]
fn every_cell_of_requests_and_rights_is_as_promised() {
    let (mut cells, mut wrong) = (0, Vec::new());
    for kind in FrameKind::ALL {
        for (verb, promise, request) in rows(*kind) {
            for cell in Cell::all() {
                cells += 1;
                let mut plant = Plant::of(cell, *kind);
                let seen = request(&mut plant);
                let expected = cell.expected(promise);
                if seen != expected {
                    let said = plant.spoken();
                    wrong.push(format!(
                        "{kind} {verb}: {cell:?}: {seen:?} instead of {expected:?}: {said:?}"
                    ));
                }
                wrong.extend(plant.leaks(&format!("{kind} {verb}: {cell:?}")));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {cells}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(cells > 3000, "{cells} cells");
}

/// The gate states the same requirements as the promises.
///
/// Failure mode: F17.
#[test]
fn gate_requires_what_is_promised() {
    for kind in FrameKind::ALL {
        let promises: Vec<Promise> = rows(*kind).iter().map(|row| row.1).collect();
        let actions_of = |of: fn(&Promise) -> Option<Action>| {
            let actions: Vec<Action> = promises.iter().filter_map(of).collect();
            Actions::of(&actions)
        };
        let names = actions_of(|promise| match promise {
            Promise::Name(action) | Promise::Listed(action) => Some(*action),
            _ => None,
        });
        let agrees = match requirement(*kind) {
            Requirement::Session => promises
                .iter()
                .all(|promise| matches!(promise, Promise::Nothing | Promise::End)),
            Requirement::EachName(actions) => {
                let all =
                    |promise: &Promise| matches!(promise, Promise::Name(_) | Promise::Listed(_));
                promises.iter().all(all) && names == Actions::of(actions)
            }
            Requirement::SomeName(action) => promises == [Promise::Rows(action)],
            Requirement::Library(action) => promises
                .iter()
                .all(|promise| *promise == Promise::Library(action)),
            Requirement::IoServer(action) => promises == [Promise::IoServer(action)],
            Requirement::LibraryOrEngine(library, engine) => promises.iter().all(|promise| {
                [Promise::Library(library), Promise::Engine(engine)].contains(promise)
            }),
            Requirement::Folder(actions) => {
                let required = actions_of(|promise| match promise {
                    Promise::Library(action) => Some(*action),
                    _ => None,
                });
                let needs_none =
                    |promise: &Promise| matches!(promise, Promise::Listed(_) | Promise::Nothing);
                let is_known = |promise: &Promise| {
                    matches!(promise, Promise::Library(_)) || needs_none(promise)
                };
                required == Actions::of(actions) && promises.iter().all(is_known)
            }
            Requirement::Engine(action) => promises == [Promise::Engine(action)],
            Requirement::ListOrChange(list, change) => {
                let change = Promise::EveryName(change);
                promises == [Promise::Rows(list), change, change, change]
            }
            // A session of variables accepts no frame of the directory. What the directory requires
            // has tests of its own.
            Requirement::Stream(_) | Requirement::ListedStreams(_) | Requirement::Directory => {
                promises == [Promise::NotFromClients]
            }
            Requirement::NotFromClients => {
                // The gate never sees a part, because the session joins the parts first.
                *kind == FrameKind::Part || promises == [Promise::NotFromClients]
            }
        };
        let is_part = *kind == FrameKind::Part;
        assert!(
            agrees || is_part,
            "{kind}: {:?} against {promises:?}",
            requirement(*kind)
        );
    }
}
