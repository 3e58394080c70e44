//! One service of a compose file as a document of the short form.

use super::super::values::{Written, cores, size, time};
use super::parts;
use super::{Reports, YamlMember, YamlNode, YamlTree};

/// What a service is read into.
pub(super) struct Service<'a> {
    pub(super) node: &'a YamlNode,
    /// Its path: `services.web`.
    pub(super) path: String,
    pub(super) reports: &'a mut Reports,
    keys: Vec<(String, Written)>,
}

/// Keys of a service that have a counterpart.
const KNOWN: [&str; 19] = [
    "image",
    "command",
    "entrypoint",
    "environment",
    "user",
    "working_dir",
    "ports",
    "expose",
    "volumes",
    "mem_limit",
    "cpus",
    "labels",
    "dns_search",
    "stop_grace_period",
    "restart",
    "scale",
    "deploy",
    "healthcheck",
    "logging",
];

/// The document of a service.
pub(super) fn service(member: &YamlMember, project: &str, reports: &mut Reports) -> Written {
    let path = format!("services.{}", member.key);
    reports.others(&member.node, &path, &KNOWN);
    let mut service = Service { node: &member.node, path, reports, keys: Vec::new() };
    service.put("name", Some(Written::Text(format!("{project}.{}", member.key))));
    let image = service.image(member, project);
    service.put("image", Some(Written::Text(image)));
    service.deployment();
    service.container();
    service.health();
    service.logging();
    Written::Map(service.keys)
}

impl<'a> Service<'a> {
    fn put(&mut self, key: &str, value: Option<Written>) {
        self.keys.extend(value.map(|value| (key.to_owned(), value)));
    }

    /// The value of a key, and its path.
    pub(super) fn at(&self, key: &str) -> Option<(&'a YamlNode, String)> {
        let found = key.split('.').try_fold(self.node, |node, step| node.member(step).map(|member| &member.node));
        found.filter(|node| node.tree != YamlTree::Null).map(|node| (node, format!("{}.{key}", self.path)))
    }

    pub(super) fn plain(&mut self, key: &str) -> Option<String> {
        let (node, path) = self.at(key)?;
        self.reports.text(node, &path)
    }

    fn text(&mut self, key: &str) -> Option<Written> {
        self.plain(key).map(Written::Text)
    }

    /// Reports a value that is used in another way than it is written.
    pub(super) fn note(&mut self, key: &str, problem: impl Into<String>) {
        let place = self.at(key).and_then(|(node, _)| node.position);
        self.reports.add(place, format!("{}.{key}", self.path), problem);
    }

    /// The image; compose names that of a service with `build` after project and service.
    fn image(&mut self, member: &YamlMember, project: &str) -> String {
        self.plain("image").unwrap_or_else(|| {
            let image = format!("{project}-{}", member.key);
            if self.at("build").is_none() {
                let problem = format!("is missing; the document names {image}");
                self.reports.add(member.position, format!("{}.image", self.path), problem);
            }
            image
        })
    }

    fn deployment(&mut self) {
        if let Some((deploy, path)) = self.at("deploy") {
            self.reports.others(deploy, &path, &["replicas", "resources", "restart_policy"]);
        }
        if let Some((resources, path)) = self.at("deploy.resources") {
            self.reports.others(resources, &path, &["limits"]);
        }
        if let Some((limits, path)) = self.at("deploy.resources.limits") {
            self.reports.others(limits, &path, &["cpus", "memory"]);
        }
        if let Some((policy, path)) = self.at("deploy.restart_policy") {
            self.reports.others(policy, &path, &["condition"]);
        }
        let replicas = self.number("deploy.replicas").or_else(|| self.number("scale")).unwrap_or(1);
        self.put("replicas", Some(Written::Number(replicas)));
        let restart = self.restart();
        self.put("restart", Some(Written::Text(restart.to_owned())));
        let memory = self.memory("mem_limit").or_else(|| self.memory("deploy.resources.limits.memory"));
        self.put("memory", memory);
        let cpu = self.cpu("cpus").or_else(|| self.cpu("deploy.resources.limits.cpus"));
        self.put("cpu", cpu);
    }

    fn number(&mut self, key: &str) -> Option<i64> {
        let text = self.plain(key)?;
        let number = text.parse().ok();
        if number.is_none() {
            self.note(key, format!("is no whole number: {text:?}; it is left out"));
        }
        number
    }

    /// Compose restarts nothing by default.
    fn restart(&mut self) -> &'static str {
        let (key, word) = match self.plain("deploy.restart_policy.condition") {
            Some(word) => ("deploy.restart_policy.condition", word),
            None => ("restart", self.plain("restart").unwrap_or_else(|| "no".to_owned())),
        };
        let (word, most) = word.split_once(':').map_or((word.as_str(), None), |(word, most)| (word, Some(most)));
        if most.is_some() {
            self.note(key, "the number of restarts is not limited; they back off up to 5 minutes");
        }
        match word {
            "no" | "none" | "false" => "never",
            "on-failure" => "on-failure",
            _ => "always",
        }
    }

    fn memory(&mut self, key: &str) -> Option<Written> {
        let text = self.plain(key)?;
        let bytes = parts::bytes(&text);
        if bytes.is_none() {
            self.note(key, format!("is no size of at least 6 MiB: {text:?}; it is left out"));
        }
        bytes.map(size)
    }

    fn cpu(&mut self, key: &str) -> Option<Written> {
        let text = self.plain(key)?;
        let wanted = text.parse::<f64>().ok().filter(|cores| *cores > 0.0);
        let Some(wanted) = wanted else {
            self.note(key, format!("is no number of cores: {text:?}; it is left out"));
            return None;
        };
        let level = (1_u8..=8).find(|level| f64::from(*level) / 2.0 >= wanted).unwrap_or(8);
        if f64::from(level) / 2.0 != wanted {
            self.note(key, format!("{text} cores become {}: deployd has steps of 0.5 up to 4", f64::from(level) / 2.0));
        }
        Some(cores(level))
    }

    fn container(&mut self) {
        for key in ["command", "entrypoint"] {
            let words = self.at(key).and_then(|(node, path)| parts::words(node, &path, self.reports));
            self.put(key, words);
        }
        for (key, short) in [("environment", "env"), ("labels", "labels")] {
            let named = self.at(key).map(|(node, path)| parts::named(node, &path, self.reports));
            self.put(short, named.filter(|named| *named != Written::Map(Vec::new())));
        }
        let user = self.text("user");
        self.put("user", user);
        let workdir = self.text("working_dir");
        self.put("workdir", workdir);
        let search = self.at("dns_search").map(|(node, path)| parts::list(node, &path, self.reports));
        self.put("dnsSearch", search);
        let port = parts::port(self);
        self.put("port", port.map(Written::Number));
        let (volumes, mounts) = parts::volumes(self);
        for (key, paths) in [("volumes", volumes), ("mounts", mounts)] {
            self.put(key, (!paths.is_empty()).then(|| Written::List(paths.into_iter().map(Written::Text).collect())));
        }
        let stop = self.seconds("stop_grace_period", 10, 120);
        self.put("stopTimeout", stop);
    }

    /// A time within a range; a value outside is clamped and reported.
    fn seconds(&mut self, key: &str, least: i64, most: i64) -> Option<Written> {
        let text = self.plain(key)?;
        let span = fabric::duration::parse(&text).ok();
        let Some(seconds) = span.and_then(|span| i64::try_from(span.as_secs()).ok()) else {
            self.note(key, format!("is no time: {text:?}; it is left out"));
            return None;
        };
        let used = seconds.clamp(least, most);
        if used != seconds || span.is_some_and(|span| span.subsec_nanos() != 0) {
            self.note(
                key,
                format!("{text} becomes {}: whole seconds from {} to {}", time(used), time(least), time(most)),
            );
        }
        Some(Written::Text(time(used)))
    }

    fn health(&mut self) {
        let Some((check, path)) = self.at("healthcheck") else { return };
        self.reports.others(check, &path, &["test", "interval", "timeout", "retries", "disable"]);
        let disabled = self.plain("healthcheck.disable").is_some_and(|flag| flag == "true");
        let test = self.at("healthcheck.test").and_then(|(node, path)| parts::test(node, &path, self.reports));
        let command = if disabled { Some("none".to_owned()) } else { test };
        let mut keys: Vec<(String, Written)> =
            command.map(|command| ("command".to_owned(), Written::Text(command))).into_iter().collect();
        for (key, short, least, most) in
            [("healthcheck.interval", "every", 10, 86_400), ("healthcheck.timeout", "timeout", 3, 3_600)]
        {
            keys.extend(self.seconds(key, least, most).map(|value| (short.to_owned(), value)));
        }
        if let Some(retries) = self.number("healthcheck.retries") {
            let used = retries.clamp(3, 1_000);
            if used != retries {
                self.note("healthcheck.retries", format!("{retries} becomes {used}: deployd has 3 to 1000"));
            }
            keys.push(("retries".to_owned(), Written::Number(used)));
        }
        self.put("health", (!keys.is_empty()).then_some(Written::Map(keys)));
    }

    fn logging(&mut self) {
        let Some((logging, path)) = self.at("logging") else { return };
        self.reports.others(logging, &path, &["driver", "options"]);
        let mut keys = Vec::new();
        keys.extend(self.text("logging.driver").map(|driver| ("driver".to_owned(), driver)));
        let options = self.at("logging.options").map(|(node, path)| parts::named(node, &path, self.reports));
        keys.extend(options.map(|options| ("options".to_owned(), options)));
        self.put("log", (!keys.is_empty()).then_some(Written::Map(keys)));
    }
}
