//! Holds texts whose placeholders are filled in for each variable.

use crate::fields::Values;
use crate::node::{Node, NodeKind};
use crate::placeholder::{Env, TextTemplate};
use crate::report::Report;
use crate::source::Place;

/// A text with placeholders, and its place.
#[derive(Clone, Debug)]
pub(super) struct TemplatedText {
    template: TextTemplate,
    pub place: Place,
}

impl TemplatedText {
    pub fn read(key: &str, node: &Node, report: &mut Report) -> Option<Self> {
        let NodeKind::Text(text) = &node.kind else {
            return Values::plain(report).wrong_form(key, node, "text in quotes");
        };
        let template = report.ok_or_report(node.place, text, TextTemplate::parse(text))?;
        Some(Self {
            template,
            place: node.place,
        })
    }

    pub fn expand(&self, env: &Env, report: &mut Report) -> Option<String> {
        report.ok_or_report(self.place, self.template.text(), self.template.expand(env))
    }

    pub fn expand_within(
        &self,
        key: &str,
        max: usize,
        env: &Env,
        report: &mut Report,
    ) -> Option<String> {
        let text = self.expand(env, report)?;
        let is_valid = Values::plain(report).check_text(key, self.place, &text, max);
        is_valid.then_some(text)
    }
}
