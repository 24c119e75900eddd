//! News of the peers of an end with several, for people and for programs.

use std::sync::Arc;

use serde_json::Value as Json;
use trunkline::stream::{Lacking, Member, Present, Properties, RunEnd, StreamError, StreamFault};

use super::problem;
use crate::output::counted;
use crate::output::json::Object;

/// The interface of an end for its progress display.
pub(super) trait Endpoint {
    fn properties(&self) -> Properties;

    /// Returns true if it may have several peers.
    fn is_many(&self) -> bool;

    /// Returns the news of several peers since the last call.
    fn news(&mut self) -> Vec<News>;

    /// Describes several peers for the progress line.
    fn peers(&mut self) -> String;
}

/// News of one of several peers.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum News {
    /// The peer has connected. `is_twin`: another connected writer has the same name.
    Came { member: Arc<Member>, is_twin: bool },
    /// A reader has left, or was disconnected at the end, with the elements that it lacks.
    Reader(Lacking),
    /// A writer has ended, after this number of elements was read from it.
    Writer {
        member: Arc<Member>,
        elements: u64,
        end: RunEnd,
    },
}

/// Returns the error of a writer that ended without being closed.
pub(super) fn error_of(end: &RunEnd) -> Option<StreamError> {
    match end {
        RunEnd::Closed => None,
        RunEnd::Aborted { missing, reason } => Some(StreamError::Aborted {
            missing: *missing,
            reason: reason.clone(),
        }),
        RunEnd::Fault(fault) => Some(fault.clone().into()),
    }
}

impl News {
    /// Formats the news for people; `url` is that of the end.
    pub(super) fn text(&self, url: &str) -> String {
        match self {
            News::Came { member, is_twin } => {
                let came = format!("{url} connected with {}", member.url);
                match is_twin {
                    false => came,
                    true => format!(
                        "{came}, which has the same name as another writer: the output cannot \
                         distinguish them; give each writer its own name"
                    ),
                }
            }
            News::Reader(lacking) => {
                let reader = &lacking.member.url;
                let left = counted(lacking.left.elements, "element");
                let in_doubt = match lacking.left.in_doubt {
                    0 => String::new(),
                    count => format!(" ({count} on their way)"),
                };
                let lost = match lacking.lost {
                    0 => String::new(),
                    count => format!(", {count} were lost because it was too slow"),
                };
                match &lacking.fault {
                    None => format!("{reader}: {left} not delivered{in_doubt}{lost}"),
                    Some(fault) => format!(
                        "{reader} has left: {left} had not arrived{in_doubt}{lost}; {}",
                        sentence(&fault.clone().into())
                    ),
                }
            }
            News::Writer {
                member,
                elements,
                end,
            } => {
                let read = counted(*elements, "element");
                let writer = &member.url;
                match error_of(end) {
                    None => format!("{writer} has ended: {read} read"),
                    Some(error) => {
                        format!("{writer} has ended: {read} read; {}", sentence(&error))
                    }
                }
            }
        }
    }

    /// Formats the news for programs.
    pub(super) fn json(&self, properties: &Properties) -> Json {
        let mut object = Object::new();
        let (event, member) = match self {
            News::Came { member, .. } => ("stream-connected", member),
            News::Reader(lacking) => ("stream-reader", &lacking.member),
            News::Writer { member, .. } => ("stream-writer", member),
        };
        object.put("event", event);
        object.put("url", properties.url.as_str());
        object.put("peer", member.url.as_str());
        let error = match self {
            News::Came { is_twin, .. } => {
                object.put("type", properties.data_type.to_string());
                if *is_twin {
                    object.put("same_name", true);
                }
                None
            }
            News::Reader(lacking) => {
                object.put("left", lacking.left.elements);
                object.put("in_doubt", lacking.left.in_doubt);
                object.put("lost", lacking.lost);
                lacking.fault.clone().map(StreamError::from)
            }
            News::Writer { elements, end, .. } => {
                object.put("elements", *elements);
                error_of(end)
            }
        };
        if let Some(error) = error {
            let problem = problem(&error);
            object.put("code", problem.code.as_ref());
            object.put("message", problem.message.as_str());
        }
        object.into_json()
    }
}

fn sentence(error: &StreamError) -> String {
    problem(error).sentence()
}

/// Describes readers for the progress line: their number, and the losses of each.
pub(super) fn readers_text(readers: &[Present]) -> String {
    let mut text = format!(" · {}", counted(readers.len() as u64, "reader"));
    for reader in readers.iter().filter(|reader| reader.lost > 0) {
        let lost = format!(" · {} lost {}", reader.member.url, reader.lost);
        text.push_str(&lost);
    }
    text
}

/// Returns true if a reader has left at its own program's request.
pub(super) fn has_wanted_it(fault: &StreamFault) -> bool {
    matches!(fault, StreamFault::PeerDestroyed { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline::stream::Left;

    fn member(number: u64) -> Arc<Member> {
        Arc::new(Member {
            number,
            url: format!("tl://localhost/m{number}"),
            program: "trunkline".to_owned(),
            incarnation: [0; 16],
        })
    }

    #[test]
    fn the_progress_says_who_has_lost_how_much() {
        let present = |number, lost| Present {
            member: member(number),
            is_connected: true,
            waiting: 0,
            lost,
        };
        assert_eq!(readers_text(&[]), " · 0 readers");
        assert_eq!(
            readers_text(&[present(1, 0), present(2, 120)]),
            " · 2 readers · tl://localhost/m2 lost 120"
        );
    }

    #[test]
    fn what_a_reader_lacks_is_said_with_why_it_has_left() {
        let mut lacking = Lacking {
            member: member(3),
            left: Left {
                elements: 5,
                in_doubt: 2,
            },
            lost: 7,
            fault: None,
        };
        assert_eq!(
            News::Reader(lacking.clone()).text("tl://localhost/out"),
            "tl://localhost/m3: 5 elements not delivered (2 on their way), 7 were lost because it \
             was too slow"
        );
        lacking.fault = Some(StreamFault::PeerRestarted);
        lacking.lost = 0;
        let text = News::Reader(lacking).text("tl://localhost/out");
        let begin = "tl://localhost/m3 has left: 5 elements had not arrived (2 on their way); ";
        assert!(
            text.starts_with(begin) && text.len() > begin.len(),
            "{text}"
        );
    }
}
