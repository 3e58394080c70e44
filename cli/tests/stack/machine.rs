//! A machine of its own for each part of an installation: network, mounts, processes and host name are namespaces of one process, so
//! that all of it disappears with this process, also when the test is killed.
//!
//! The file system is that of the host; what the machine writes stays in its memory. The test takes the part of systemd:
//! `systemctl` writes down what it was asked for, and [`Machine::start`] starts a unit as its file says.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::net::UnixDatagram;
use tokio::process::{Child, Command};

use crate::cluster::{eventually, programs, repository, text};

/// How long a unit may take to be ready.
const START: Duration = Duration::from_secs(120);
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What is unpacked there.
pub(crate) const PACKAGE: &str = "/root/deployd";

/// Makes the file system of the machine, then holds its namespaces until the input ends.
const BOOT: &str = r#"
set -eu
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
cd /mnt/root
mount --rbind /dev dev
mount --rbind /sys sys
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs run
touch run/docker.sock
mount --bind "$(readlink -f /var/run/docker.sock)" run/docker.sock
mkdir -p run/host run/systemd/system root/deployd/.deployd root/deployd/deploy etc/systemd/system usr/local/sbin
mount --bind "$HOST" run/host
ln -s "$PROGRAMS" root/deployd/bin
ln -s "$SERVERS" root/deployd/.deployd/bin
cp -r "$REPOSITORY/deploy/install-agent" "$REPOSITORY/deploy/systemd" root/deployd/deploy/
cp "$HOST/systemctl" usr/local/sbin/systemctl
pivot_root . mnt
umount -l /mnt
ip link set lo up
touch /run/host/booted
exec cat
"#;

/// Writes down what systemd is to do.
const SYSTEMCTL: &str = r#"#!/bin/sh
case "$*" in *is-active*) exit 3 ;; esac
echo "$*" >> /run/host/asked
"#;

/// Does what systemd does before it starts the program of a unit: `$unit`, `$user` (a name, or a number for `DynamicUser=`), `$groups`,
/// `$credentials` (ID:PATH), `$state` with `$mode`, `$before` and `$flags` are in the environment.
const EXECUTE: &str = r#"
set -eu
cd /
uid=$user gid=$user
case "$user" in [!0-9]*) uid=$(id -u "$user"); gid=$(id -g "$user") ;; esac
members=--clear-groups
for group in $groups; do members="--groups $(getent group "$group" | cut -d: -f3)"; done
install -d -m 711 /run/credentials
install -d -m 500 -o "$uid" "/run/credentials/$unit.service"
for credential in $credentials; do
  install -m 400 -o "$uid" "${credential#*:}" "/run/credentials/$unit.service/${credential%%:*}"
done
for folder in $state; do install -d -m "$mode" -o "$uid" -g "$gid" "/var/lib/$folder"; done
[ -z "$before" ] || sh -c "$before"
echo $$ > "/run/host/$unit.pid"
umask 0077
exec setpriv --reuid "$uid" --regid "$gid" $members $flags -- "$@"
"#;

/// Namespaces, and the process that holds them.
pub(crate) struct Machine {
    pub(crate) name: String,
    holder: Child,
    /// What it shares with the test: sockets, logs and process ids of units.
    pub(crate) host: PathBuf,
}

impl Machine {
    /// The folder must outlive the machine.
    pub(crate) async fn boot(name: &str, folder: &Path) -> Self {
        let host = folder.join(name);
        std::fs::create_dir(&host).expect("a folder");
        std::fs::set_permissions(&host, std::fs::Permissions::from_mode(0o755)).expect("readable");
        let systemctl = host.join("systemctl");
        std::fs::write(&systemctl, SYSTEMCTL).expect("written");
        std::fs::set_permissions(&systemctl, std::fs::Permissions::from_mode(0o755)).expect("executable");
        let servers = fabric::local::find("nats-server").expect("nats-server: ./deploy/need gets it");
        let script = format!("hostname {name}\n{BOOT}");
        let mut command = unshare(&["--net", "--mount", "--uts", "--pid", "--fork", "--kill-child"]);
        command.args(["sh", "-c", &script]).env("HOST", &host).env("PROGRAMS", programs());
        command.env("SERVERS", servers.parent().expect("a folder")).env("REPOSITORY", repository());
        let mut machine = Self { name: name.to_owned(), holder: held(&mut command), host };
        eventually(Duration::from_secs(20), &format!("{name} runs"), async || {
            let ended = machine.holder.try_wait().expect("a child");
            assert!(ended.is_none(), "{name} needs root, namespaces and overlay mounts: unshare ended with {ended:?}");
            machine.host.join("booted").exists().then_some(())
        })
        .await;
        machine
    }

    /// The process whose namespaces these are.
    pub(crate) fn pid(&self) -> u32 {
        self.holder.id().expect("it runs")
    }

    /// A command in the machine, as root.
    fn command(&self) -> Command {
        let pid = self.pid();
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid.to_string(), "--net", "--mount", "--uts"]);
        command.arg(format!("--pid=/proc/{pid}/ns/pid_for_children")).kill_on_drop(true);
        command.env_clear().env("PATH", PATH).env("HOME", "/root");
        command
    }

    pub(crate) async fn run(&self, script: &str) -> Output {
        self.command().args(["bash", "-euc", &format!("cd /root\n{script}")]).output().await.expect("nsenter runs")
    }

    /// The same, and it must succeed.
    pub(crate) async fn done(&self, script: &str) -> String {
        let output = self.run(script).await;
        assert!(output.status.success(), "{}: {script}\n{}", self.name, text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(crate) async fn write(&self, path: &str, content: &str) {
        let file = self.host.join("file");
        std::fs::write(&file, content).expect("written");
        self.done(&format!("install -D -m 644 /run/host/file {path}")).await;
    }

    /// The units that `systemctl` was to start since the last call.
    pub(crate) fn asked(&self) -> Vec<String> {
        let asked = std::fs::read_to_string(self.host.join("asked")).unwrap_or_default();
        drop(std::fs::remove_file(self.host.join("asked")));
        let starts =
            asked.lines().filter_map(|line| line.strip_prefix("enable --now ").or_else(|| line.strip_prefix("start ")));
        starts.flat_map(str::split_whitespace).map(|unit| unit.trim_end_matches(".service").to_owned()).collect()
    }

    /// Starts a unit as systemd would; returns before it is ready.
    pub(crate) async fn start(&self, name: &str) -> Service {
        let file = format!("/etc/systemd/system/{name}.service");
        let read = format!("cat {file}; for more in {file}.d/*.conf; do [ ! -f $more ] || cat $more; done");
        let unit = Unit::parse(&self.done(&read).await);
        let mut settings = Vec::new();
        for file in unit.all("EnvironmentFile") {
            let content = self.done(&format!("cat {file}")).await;
            let lines = content.lines().filter(|line| !line.starts_with('#'));
            settings.extend(
                lines.filter_map(|line| line.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())),
            );
        }
        let socket = self.host.join(format!("{name}.notify"));
        drop(std::fs::remove_file(&socket));
        let systemd = UnixDatagram::bind(&socket).expect("a socket");
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o777)).expect("open to all users");
        let is_notify = unit.last("Type") == "notify";
        let path = self.host.join(format!("{name}.log"));
        let log = std::fs::File::options().create(true).append(true).open(&path).expect("a log");
        let mut command = self.command();
        command.args(["bash", "-c", EXECUTE, "bash", "env", "-i"]).envs(unit.settings(name));
        command.args(settings.iter().map(|(name, value)| format!("{name}={value}")));
        if is_notify {
            command.args([&format!("NOTIFY_SOCKET=/run/host/{name}.notify"), "WATCHDOG_USEC=30000000"]);
        }
        command.args(unit.words(&settings)).stdout(log.try_clone().expect("a log")).stderr(log);
        let child = command.spawn().expect("nsenter runs");
        Service { name: format!("{name} of {}", self.name), child, systemd, is_notify, log: path }
    }

    /// `kill -9` of the main process of a unit.
    pub(crate) async fn kill(&self, unit: &str) {
        self.done(&format!("kill -9 $(cat /run/host/{unit}.pid)")).await;
    }
}

/// Namespaces without a machine: the network of an operator, to which the machines are connected.
pub(crate) fn network() -> Child {
    for (tool, package) in [("ip", "iproute2"), ("nft", "nftables")] {
        let found = std::process::Command::new(tool).arg("-V").env("PATH", PATH).output();
        assert!(found.is_ok(), "there is no {tool} (Debian: {package}); ./deploy/need test gets it");
    }
    held(unshare(&["--net"]).arg("cat"))
}

fn unshare(flags: &[&str]) -> Command {
    assert!(rustix::process::geteuid().is_root(), "this test makes network namespaces: run it as root");
    let mut command = Command::new("unshare");
    command.args(flags);
    command
}

fn held(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true).spawn().expect("unshare runs (util-linux)")
}

/// A unit that runs.
pub(crate) struct Service {
    name: String,
    child: Child,
    systemd: UnixDatagram,
    is_notify: bool,
    log: PathBuf,
}

impl Service {
    /// Waits until it says that it is ready; a unit that says nothing is ready at once.
    pub(crate) async fn ready(&mut self) {
        if !self.is_notify {
            return;
        }
        let (systemd, child) = (&self.systemd, &mut self.child);
        let listen = async {
            let mut buffer = [0; 1024];
            loop {
                let length = systemd.recv(&mut buffer).await.expect("a datagram");
                if String::from_utf8_lossy(&buffer[..length]).lines().any(|line| line == "READY=1") {
                    return Ok(());
                }
            }
        };
        let ready = tokio::select! {
            ready = tokio::time::timeout(START, listen) => ready.unwrap_or_else(|_| Err("is not ready".to_owned())),
            ended = child.wait() => Err(format!("ended: {ended:?}")),
        };
        assert_eq!(ready, Ok(()), "{}:\n{}", self.name, self.log());
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ended(&mut self) -> std::process::ExitStatus {
        let ended = tokio::time::timeout(START, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("{} runs:\n{}", self.name, self.log())).expect("a child")
    }

    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// The settings of a unit, in their order.
struct Unit(Vec<(String, String)>);

impl Unit {
    fn parse(text: &str) -> Self {
        let joined = text.replace("\\\n", " ");
        let lines = joined.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once('='));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn last(&self, name: &str) -> &str {
        self.all(name).last().unwrap_or_default()
    }

    /// What [`EXECUTE`] needs to know.
    fn settings(&self, name: &str) -> Vec<(&'static str, String)> {
        let joined = |name: &str| self.all(name).collect::<Vec<_>>().join(" ");
        let has = |name: &str| self.all(name).next().is_some();
        // systemd takes numbers of this range.
        let dynamic = if self.last("DynamicUser") == "yes" { "61184" } else { "0" };
        let user = if has("User") { self.last("User") } else { dynamic };
        let mut flags = Vec::new();
        if has("CapabilityBoundingSet") {
            assert_eq!(self.last("CapabilityBoundingSet"), "", "{name}");
            flags.extend(["--bounding-set=-all", "--inh-caps=-all"]);
        }
        if self.last("NoNewPrivileges") == "yes" {
            flags.push("--no-new-privs");
        }
        let mode = if has("StateDirectoryMode") { self.last("StateDirectoryMode") } else { "0755" };
        vec![
            ("unit", name.to_owned()),
            ("user", user.to_owned()),
            ("groups", joined("SupplementaryGroups")),
            ("credentials", joined("LoadCredential")),
            ("state", joined("StateDirectory")),
            ("mode", mode.to_owned()),
            ("before", self.last("ExecStartPre").trim_start_matches('+').to_owned()),
            ("flags", flags.join(" ")),
        ]
    }

    /// The command with the settings of the environment in it.
    fn words(&self, settings: &[(String, String)]) -> Vec<String> {
        let put = |word: &str| {
            settings.iter().fold(word.to_owned(), |word, (name, value)| word.replace(&format!("${{{name}}}"), value))
        };
        self.last("ExecStart").split_whitespace().map(put).collect()
    }
}
