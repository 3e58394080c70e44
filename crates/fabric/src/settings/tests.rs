//! Precedence of flags, environment and files; refused values and their error texts.

use std::ffi::OsString;
use std::time::Duration;

use clap::Parser;

use super::{Read, Settings, explain, read};
use crate::duration;

#[derive(Debug, Parser)]
#[command(name = "deployd-sample", version)]
struct Sample {
    /// Time without a heartbeat until a node is lost
    #[arg(long, env = "SAMPLE_LOST_AFTER", default_value = "5m", value_parser = duration::parse)]
    lost_after: Duration,
    /// Labels
    #[arg(long = "label", env = "SAMPLE_LABELS", value_delimiter = ',')]
    labels: Vec<String>,
    /// Devices
    #[arg(long = "device", value_delimiter = ';')]
    devices: Vec<String>,
    /// Cores
    #[arg(long, default_value_t = 8)]
    cores: u32,
    /// Name
    #[arg(long)]
    name: Option<String>,
    /// Quiet
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    nats: crate::nats::Args,
}

impl Settings for Sample {
    fn check(&self) -> Result<(), String> {
        if self.cores == 0 { Err("--cores must be at least 1".to_owned()) } else { Ok(()) }
    }
}

fn with_file(text: &str, flags: &[&str]) -> Result<Read<Sample>, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sample.toml");
    std::fs::write(&path, text).unwrap();
    let mut words = vec![OsString::from("deployd-sample"), "--config".into(), path.into()];
    words.extend(flags.iter().map(OsString::from));
    read(&words)
}

fn started(text: &str, flags: &[&str]) -> Sample {
    match with_file(text, flags) {
        Ok(Read::Start(sample)) => sample,
        other => panic!("{other:?}"),
    }
}

fn flaw(text: &str) -> String {
    with_file(text, &[]).unwrap_err()
}

#[test]
fn a_file_overrides_defaults_and_flags_override_the_file() {
    let text = "# ours\nlost-after = \"7m\"\ncores = 3\nname = \"n1\"\nquiet = true\n";
    let sample = started(text, &["--cores", "4"]);
    assert_eq!((sample.lost_after, sample.cores), (Duration::from_secs(420), 4));
    assert_eq!((sample.name.as_deref(), sample.quiet), (Some("n1"), true));
    assert_eq!(sample.nats.urls, ["nats://127.0.0.1:4222"]);
}

#[test]
fn a_list_is_written_as_a_list_or_like_its_flag() {
    for text in ["label = [\"a=1\", \"b=2\"]", "label = \"a=1,b=2\""] {
        assert_eq!(started(text, &[]).labels, ["a=1", "b=2"], "{text}");
    }
    assert_eq!(started("device = [\"x,y\", \"z\"]", &[]).devices, ["x,y", "z"]);
    assert_eq!(started("label = [\"a=1\"]", &["--label", "c=3"]).labels, ["c=3"], "a flag replaces the list");
    assert!(started("label = []", &[]).labels.is_empty());
    assert!(flaw("cores = [1, 2]").ends_with(":1: cores takes one value, not a list"));
}

#[test]
fn an_error_in_a_file_names_the_line_and_the_remedy() {
    let cases = [
        ("cores = 2\nlost_after = \"1m\"", ":2: there is no setting lost_after; did you mean lost-after?"),
        ("\n\nlost-after = \"soon\"", ":3: invalid value 'soon' for '--lost-after <LOST_AFTER>'"),
        ("cores = 2\ncores = 3", ":2: duplicate key"),
        ("cores", ":1: "),
        ("quiet = \"perhaps\"", ":1: quiet is either true or false"),
        ("[nats]\nurl = 1", ":1: nats is a table; write a text"),
        ("since = 2026-01-01", ":1: since is a date"),
        ("config = \"other\"", ":1: there is no setting config"),
        ("zebra = 1", "there are lost-after, label, device, cores"),
        ("cores = 0", "--cores must be at least 1 (flags, environment and "),
    ];
    for (text, expected) in cases {
        let flaw = flaw(text);
        assert!(flaw.contains(expected), "{text:?} gave {flaw:?}");
    }
    let missing = read::<Sample>(&["deployd-sample".into(), "--config=/nowhere/x.toml".into()]).unwrap_err();
    assert!(missing.starts_with("--config /nowhere/x.toml: No such file"), "{missing}");
}

#[test]
fn passwords_are_refused_in_arguments_and_hidden_in_output() {
    let secret = "nats://me:pass@host:4222";
    let refused = read::<Sample>(&["deployd-sample".into(), "--nats".into(), secret.into()]).unwrap_err();
    assert!(refused.contains("--nats has a password") && !refused.contains("pass@"), "{refused}");
    let bare = read::<Sample>(&["deployd-sample".into(), "--nats=me:pass@host:4222".into()]).unwrap_err();
    assert!(bare.contains("--nats has a password") && !bare.contains("pass@"), "{bare}");
    assert!(read::<Sample>(&["deployd-sample".into(), "--label=owner=a:b@c".into()]).is_ok(), "no address");
    let sample = started(&format!("nats = \"{secret}\""), &[]);
    assert_eq!(sample.nats.urls, [secret]);
    assert_eq!(explain::without_secret("nats://me:p@ss@a:1,nats://b:2/x@y"), "nats://***@a:1,nats://b:2/x@y");
}

#[test]
fn check_config_prints_each_setting_with_its_origin() {
    let text = "lost-after = \"7m\"\nnats = \"nats://me:pass@host:4222\"\n";
    let Ok(Read::Print(shown)) = with_file(text, &["--check-config", "--cores=2"]) else { panic!("not printed") };
    let line = |name: &str| {
        let line = shown.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(shown.starts_with("the configuration of deployd-sample is good"), "{shown}");
    assert_eq!(line("lost-after")[1], "7m");
    assert!(line("lost-after")[2].ends_with("sample.toml:1"), "{shown}");
    assert_eq!(line("cores")[1..3], ["2", "flag"]);
    assert_eq!(line("quiet")[1..3], ["false", "default"]);
    assert_eq!(line("nats")[1], "nats://***@host:4222");
    assert!(shown.contains("Time without a heartbeat until a node is lost"));
}
