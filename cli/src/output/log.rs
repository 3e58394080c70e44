//! A line of a log as text.

use contract::logs::InstanceLine;

/// How lines begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogStyle {
    /// The last part of the group's name; none without a prefix.
    pub(crate) group: Option<String>,
    /// The pods have several containers.
    pub(crate) has_containers: bool,
    pub(crate) timestamps: bool,
}

impl LogStyle {
    /// What stands before a line: `[web 2] `, `[web 2 c1] `, with or without its time.
    pub(crate) fn head(&self, line: &InstanceLine) -> String {
        let prefix =
            self.group.as_ref().map(|group| format!("[{}] ", self.source(group, line.instance, line.container)));
        let time = self.timestamps.then(|| format!("{} ", line.line.time));
        prefix.unwrap_or_default() + &time.unwrap_or_default()
    }

    /// `web 2`, or `web 2 c1`.
    pub(crate) fn source(&self, group: &str, instance: u32, container: u32) -> String {
        match self.has_containers {
            true => format!("{group} {instance} c{container}"),
            false => format!("{group} {instance}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::logs::{LogLine, LogStream, LogTime};

    use super::*;

    #[test]
    fn a_line_begins_with_its_instance_and_its_time_as_wanted() {
        let line = LogLine { time: LogTime::from_nanos(1), stream: LogStream::Stdout, line: String::new() };
        let line = InstanceLine { instance: 2, container: 1, node: "n1".to_owned(), line };
        let head = |group: Option<&str>, has_containers, timestamps| {
            LogStyle { group: group.map(str::to_owned), has_containers, timestamps }.head(&line)
        };
        assert_eq!(head(None, false, false), "");
        assert_eq!(head(Some("web"), false, false), "[web 2] ");
        assert_eq!(head(Some("web"), true, true), "[web 2 c1] 1970-01-01T00:00:00.000000001Z ");
    }
}
