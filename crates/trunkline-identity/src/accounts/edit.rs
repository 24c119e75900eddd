//! Changes of accounts and rules.

use toml_edit::{DocumentMut, Item, Table, Value};
use trunkline_access::{Actions, Effect, GroupName, Role, Rule, UserName, Who};
use trunkline_types::name::suggest;

use super::error::AccessErrors;
use super::lookup::Accounts;
use super::reader::{RULE, USER, rule_keys, user_keys};
use super::toml_text::{list, push_table, push_text, remove_table, remove_text, set_value};
use crate::fingerprint::Fingerprint;
use crate::keys::PublicKey;
use crate::password::PasswordHash;
use crate::token::JoinGrant;

/// Changes of a text of accounts and rules. Comments, order and form of the rest stay.
///
/// A change is checked for its account at once; that the whole is valid, such as that no other account has an
/// added key, is checked at the end.
#[derive(Debug)]
pub struct AccessEdit {
    file: String,
    document: DocumentMut,
}

/// A change that is not possible.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EditError {
    /// There is no such account.
    #[error(
        "there is no account {name}{}",
        .suggestion.as_ref().map_or_else(String::new, |name| format!("; did you mean {name}?"))
    )]
    NoAccount {
        /// The name.
        name: UserName,
        /// The account that was probably meant.
        suggestion: Option<String>,
    },
    /// There is an account with this name.
    #[error("there already is an account {0}; choose another name, or change that account")]
    AccountExists(UserName),
    /// The account is disabled, so no program can join it.
    #[error("the account {0} is disabled; an administrator can enable it")]
    Disabled(UserName),
    /// The account already has the key or certificate.
    #[error("the account {name} already has {what}")]
    AlreadyThere {
        /// The account.
        name: UserName,
        /// The key or certificate.
        what: String,
    },
    /// The account does not have the key or certificate.
    #[error("the account {name} does not have {what}; list the account to see what it has")]
    NotThere {
        /// The account.
        name: UserName,
        /// The key or certificate.
        what: String,
    },
    /// There is no such rule.
    #[error("there is no such rule: it would be `{0}`; list the rules, and specify one of them")]
    NoRule(String),
    /// The same rule is already there.
    #[error("an identical rule already exists at {0}")]
    RuleExists(trunkline_access::Place),
    /// The text became invalid by an earlier change.
    #[error("{0}")]
    Invalid(AccessErrors),
}

impl AccessEdit {
    /// Begins to change a text, which must be valid. `file` is its name in messages.
    ///
    /// # Errors
    /// [`AccessErrors`] if the text has errors.
    pub fn new(file: &str, text: &str) -> Result<Self, AccessErrors> {
        Accounts::parse(file, text)?;
        // The same parser has just accepted the text.
        let document = text.parse().map_err(|error| AccessErrors::syntax(&error))?;
        Ok(Self {
            file: file.to_owned(),
            document,
        })
    }

    /// Returns the changed text, with its accounts.
    ///
    /// # Errors
    /// [`AccessErrors`] if the changes contradict each other or the rest.
    pub fn finish(self) -> Result<(String, Accounts), AccessErrors> {
        let text = self.document.to_string();
        let accounts = Accounts::parse(&self.file, &text)?;
        Ok((text, accounts))
    }

    /// Adds an account that cannot log in yet.
    ///
    /// # Errors
    /// [`EditError::AccountExists`].
    pub fn add_account(
        &mut self,
        name: &UserName,
        role: Option<Role>,
        groups: &[GroupName],
    ) -> Result<(), EditError> {
        if self.position(name).is_some() {
            return Err(EditError::AccountExists(name.clone()));
        }
        let mut table = Table::new();
        set_value(&mut table, user_keys::NAME, name.as_str());
        if let Some(role) = role {
            set_value(&mut table, user_keys::ROLE, role.name());
        }
        if !groups.is_empty() {
            set_value(
                &mut table,
                user_keys::GROUPS,
                list(groups.iter().map(GroupName::as_str)),
            );
        }
        push_table(&mut self.document, USER, table);
        Ok(())
    }

    /// Removes an account, and the rules for it alone: otherwise they would hold for a later account with the same
    /// name. Returns the number of rules removed.
    ///
    /// # Errors
    /// [`EditError::NoAccount`].
    pub fn remove_account(&mut self, name: &UserName) -> Result<usize, EditError> {
        let Some(index) = self.position(name) else {
            return Err(self.no_account(name));
        };
        remove_table(&mut self.document, USER, index);
        let mut count: usize = 0;
        while let Some(index) = self.rule_for(name) {
            remove_table(&mut self.document, RULE, index);
            count = count.saturating_add(1);
        }
        Ok(count)
    }

    /// Disables or enables an account.
    ///
    /// # Errors
    /// [`EditError::NoAccount`].
    pub fn set_disabled(&mut self, name: &UserName, is_disabled: bool) -> Result<(), EditError> {
        let table = self.account(name)?;
        match is_disabled {
            true => set_value(table, user_keys::DISABLED, true),
            false => {
                table.remove(user_keys::DISABLED);
            }
        }
        Ok(())
    }

    /// Sets or removes the role of an account.
    ///
    /// # Errors
    /// [`EditError::NoAccount`].
    pub fn set_role(&mut self, name: &UserName, role: Option<Role>) -> Result<(), EditError> {
        let table = self.account(name)?;
        set_or_remove(table, user_keys::ROLE, role.map(|role| role.name().into()));
        Ok(())
    }

    /// Sets the groups of an account.
    ///
    /// # Errors
    /// [`EditError::NoAccount`].
    pub fn set_groups(&mut self, name: &UserName, groups: &[GroupName]) -> Result<(), EditError> {
        let table = self.account(name)?;
        let value = (!groups.is_empty()).then(|| list(groups.iter().map(GroupName::as_str)));
        set_or_remove(table, user_keys::GROUPS, value);
        Ok(())
    }

    /// Adds a public key to an account.
    ///
    /// # Errors
    /// [`EditError::NoAccount`]; [`EditError::AlreadyThere`].
    pub fn add_key(&mut self, name: &UserName, key: &PublicKey) -> Result<(), EditError> {
        let is_key = |text: &str| text.parse() == Ok(*key);
        self.add(name, user_keys::KEYS, &key.to_string(), is_key)
    }

    /// Removes a public key from an account.
    ///
    /// # Errors
    /// [`EditError::NoAccount`]; [`EditError::NotThere`].
    pub fn remove_key(&mut self, name: &UserName, key: &PublicKey) -> Result<(), EditError> {
        let is_key = |text: &str| text.parse() == Ok(*key);
        self.remove(name, user_keys::KEYS, &key.to_string(), is_key)
    }

    /// Adds the public key of a client certificate to an account.
    ///
    /// # Errors
    /// [`EditError::NoAccount`]; [`EditError::AlreadyThere`].
    pub fn add_certificate(
        &mut self,
        name: &UserName,
        certificate: &Fingerprint,
    ) -> Result<(), EditError> {
        let is_certificate = |text: &str| text.parse() == Ok(*certificate);
        let text = certificate.to_string();
        self.add(name, user_keys::CERTIFICATES, &text, is_certificate)
    }

    /// Removes the public key of a client certificate from an account.
    ///
    /// # Errors
    /// [`EditError::NoAccount`]; [`EditError::NotThere`].
    pub fn remove_certificate(
        &mut self,
        name: &UserName,
        certificate: &Fingerprint,
    ) -> Result<(), EditError> {
        let is_certificate = |text: &str| text.parse() == Ok(*certificate);
        let text = certificate.to_string();
        self.remove(name, user_keys::CERTIFICATES, &text, is_certificate)
    }

    /// Sets or removes the password of an account.
    ///
    /// # Errors
    /// [`EditError::NoAccount`].
    pub fn set_password(
        &mut self,
        name: &UserName,
        password: Option<&PasswordHash>,
    ) -> Result<(), EditError> {
        let table = self.account(name)?;
        let value = password.map(|hash| hash.to_string().into());
        set_or_remove(table, user_keys::PASSWORD, value);
        Ok(())
    }

    /// Sets the user ids that have an account on the engine's machine.
    ///
    /// # Errors
    /// [`EditError::NoAccount`].
    pub fn set_uids(&mut self, name: &UserName, uids: &[u32]) -> Result<(), EditError> {
        let table = self.account(name)?;
        let number = |uid: &u32| Value::from(i64::from(*uid));
        let (one, several) = match uids {
            [] => (None, None),
            [uid] => (Some(number(uid)), None),
            uids => (
                None,
                Some(uids.iter().map(number).collect::<toml_edit::Array>().into()),
            ),
        };
        set_or_remove(table, user_keys::UID, one);
        set_or_remove(table, user_keys::UIDS, several);
        Ok(())
    }

    /// Stores the key of a program that joined with a token: in the account of the grant, which is created if it
    /// does not exist.
    ///
    /// A program may join again with the key that its account has.
    ///
    /// # Errors
    /// [`EditError::Disabled`]; [`EditError::NoAccount`] if the token was issued for an existing account
    /// that does not exist any more.
    pub fn join(&mut self, grant: &JoinGrant, key: &PublicKey) -> Result<(), EditError> {
        let name = &grant.account;
        // A token for an existing account grants no role and no group. If the account was removed
        // meanwhile, the token must not bring it back.
        let is_new = grant.role.is_some() || !grant.groups.is_empty();
        if self.position(name).is_none() && is_new {
            self.add_account(name, grant.role, &grant.groups)?;
        }
        let table = self.account(name)?;
        if table.get(user_keys::DISABLED).and_then(Item::as_bool) == Some(true) {
            return Err(EditError::Disabled(name.clone()));
        }
        match self.add_key(name, key) {
            Ok(()) | Err(EditError::AlreadyThere { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds a rule. Its place is not used.
    ///
    /// # Errors
    /// [`EditError::RuleExists`].
    pub fn add_rule(&mut self, rule: &Rule) -> Result<(), EditError> {
        if let Some((_, existing)) = self.find_rule(rule)? {
            return Err(EditError::RuleExists(existing.place));
        }
        let mut table = Table::new();
        match &rule.who {
            Who::User(name) => set_value(&mut table, rule_keys::USER, name.as_str()),
            Who::Group(name) => set_value(&mut table, rule_keys::GROUP, name.as_str()),
            Who::Role(role) => set_value(&mut table, rule_keys::ROLE, role.name()),
            Who::Host(range) => set_value(&mut table, rule_keys::HOST, range.to_string()),
            Who::Everyone => set_value(&mut table, rule_keys::EVERYONE, true),
        }
        set_value(&mut table, rule_keys::PATTERN, rule.pattern.as_str());
        let key = match rule.effect {
            Effect::Grant => rule_keys::GRANT,
            Effect::Deny => rule_keys::DENY,
        };
        let names: Vec<&str> = match rule.actions {
            Actions::ALL => vec!["all"],
            actions => actions.iter().map(|action| action.name()).collect(),
        };
        set_value(&mut table, key, list(names));
        push_table(&mut self.document, RULE, table);
        Ok(())
    }

    /// Removes the first rule that is equal except for its place.
    ///
    /// # Errors
    /// [`EditError::NoRule`].
    pub fn remove_rule(&mut self, rule: &Rule) -> Result<(), EditError> {
        let Some((index, _)) = self.find_rule(rule)? else {
            return Err(EditError::NoRule(rule.to_string()));
        };
        remove_table(&mut self.document, RULE, index);
        Ok(())
    }

    /// Returns the number and the rule that is equal except for its place.
    fn find_rule(&self, rule: &Rule) -> Result<Option<(usize, Rule)>, EditError> {
        let text = self.document.to_string();
        let accounts = Accounts::parse(&self.file, &text).map_err(EditError::Invalid)?;
        let mut rules = accounts.policy().rules().cloned().enumerate();
        Ok(rules.find(|(_, other)| {
            let place = other.place.clone();
            *other
                == Rule {
                    place,
                    ..rule.clone()
                }
        }))
    }

    fn add(
        &mut self,
        name: &UserName,
        key: &str,
        added: &str,
        is_same: impl Fn(&str) -> bool,
    ) -> Result<(), EditError> {
        let table = self.account(name)?;
        let values = table.get(key).and_then(Item::as_array);
        let texts = values.into_iter().flatten().filter_map(Value::as_str);
        if texts.into_iter().any(is_same) {
            return Err(EditError::AlreadyThere {
                name: name.clone(),
                what: added.to_owned(),
            });
        }
        push_text(table, key, added);
        Ok(())
    }

    fn remove(
        &mut self,
        name: &UserName,
        key: &str,
        removed: &str,
        is_same: impl Fn(&str) -> bool,
    ) -> Result<(), EditError> {
        match remove_text(self.account(name)?, key, is_same) {
            true => Ok(()),
            false => Err(EditError::NotThere {
                name: name.clone(),
                what: removed.to_owned(),
            }),
        }
    }

    /// Returns the number of the first rule for an account alone.
    fn rule_for(&self, name: &UserName) -> Option<usize> {
        let is_for = |table: &Table| text(table, rule_keys::USER) == Some(name.as_str());
        tables(&self.document, RULE).position(is_for)
    }

    fn position(&self, name: &UserName) -> Option<usize> {
        let is_account = |table: &Table| text(table, user_keys::NAME) == Some(name.as_str());
        tables(&self.document, USER).position(is_account)
    }

    fn account(&mut self, name: &UserName) -> Result<&mut Table, EditError> {
        let Some(index) = self.position(name) else {
            return Err(self.no_account(name));
        };
        let tables = self
            .document
            .get_mut(USER)
            .and_then(Item::as_array_of_tables_mut);
        tables
            .and_then(|tables| tables.get_mut(index))
            .ok_or_else(|| EditError::NoAccount {
                name: name.clone(),
                suggestion: None,
            })
    }

    fn no_account(&self, name: &UserName) -> EditError {
        let names = tables(&self.document, USER).filter_map(|table| text(table, user_keys::NAME));
        EditError::NoAccount {
            name: name.clone(),
            suggestion: suggest(name.as_str(), names),
        }
    }
}

fn tables<'d>(document: &'d DocumentMut, key: &str) -> impl Iterator<Item = &'d Table> + use<'d> {
    let tables = document.get(key).and_then(Item::as_array_of_tables);
    tables.into_iter().flatten()
}

fn text<'t>(table: &'t Table, key: &str) -> Option<&'t str> {
    table.get(key).and_then(Item::as_str)
}

fn set_or_remove(table: &mut Table, key: &str, value: Option<Value>) {
    match value {
        Some(value) => set_value(table, key, value),
        None => {
            table.remove(key);
        }
    }
}
