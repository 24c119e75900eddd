//! A network of two machines that are one: an engine in a network namespace, joined to this one by
//! a pair of virtual links that can be cut without either end noticing.

use std::io::Write;
use std::process::Command;

/// A namespace and its link; both are gone when it is dropped.
pub struct Network {
    name: String,
    pub engine: String,
    pub client: String,
}

impl Network {
    /// `None` where the machine does not let this user make one, which is printed.
    pub fn create(check: &str) -> Option<Self> {
        let number = std::process::id() % 60_000;
        let name = format!("tlrig{number}");
        let (high, low) = (number / 250, number % 250 + 1);
        let network = Self {
            engine: format!("10.{}.{low}.2", high + 10),
            client: format!("10.{}.{low}.1", high + 10),
            name: name.clone(),
        };
        let (near, far) = (network.near(), format!("{name}b"));
        let made = ip(&["netns", "add", &name])
            && ip(&[
                "link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &name,
            ])
            && ip(&[
                "addr",
                "add",
                &format!("{}/30", network.client_base()),
                "dev",
                &near,
            ])
            && ip(&["link", "set", &near, "up"])
            && network.inside(&[
                "addr",
                "add",
                &format!("{}/30", network.engine),
                "dev",
                &far,
            ])
            && network.inside(&["link", "set", "lo", "up"])
            && network.inside(&["link", "set", &far, "up"]);
        if !made {
            // Not by a macro, whose output tests that pass keep to themselves.
            let _ = writeln!(
                std::io::stderr(),
                "skipped, because this user can make no network namespace here, which needs root \
                 and iproute2: {check}"
            );
            return None;
        }
        Some(network)
    }

    fn near(&self) -> String {
        format!("{}a", self.name)
    }

    fn client_base(&self) -> &str {
        &self.client
    }

    /// The prefix of a command that is to run at the engine's end.
    pub fn before(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.name]
            .map(str::to_owned)
            .to_vec()
    }

    /// Cuts the link, or joins it again.
    pub fn link(&self, up: bool) {
        let state = if up { "up" } else { "down" };
        assert!(self.inside(&["link", "set", &format!("{}b", self.name), state]));
    }

    /// Frames from the engine are lost, and those of clients arrive.
    pub fn lose_from_engine(&self, lose: bool) {
        let verb = if lose { "add" } else { "del" };
        let to = format!("{}/32", self.client);
        assert!(self.inside(&["route", verb, "blackhole", &to]));
    }

    /// Frames from clients are lost, and those of the engine arrive.
    pub fn lose_to_engine(&self, lose: bool) {
        let verb = if lose { "add" } else { "del" };
        let to = format!("{}/32", self.engine);
        assert!(ip(&["route", verb, "blackhole", &to]));
    }

    fn inside(&self, arguments: &[&str]) -> bool {
        let mut all = vec!["-n", &self.name];
        all.extend(arguments);
        ip(&all)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = ip(&["route", "del", "blackhole", &format!("{}/32", self.engine)]);
        // The link goes with either of its ends.
        let _ = ip(&["link", "del", &self.near()]);
        let _ = ip(&["netns", "del", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    let output = Command::new("ip").args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}
