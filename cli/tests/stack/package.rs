//! What `./deploy/package` builds: a tarball and a Debian package that need no compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::{repository, text};

/// The one file of target/package/debug whose name has this ending.
fn package(ending: &str) -> PathBuf {
    let folder = repository().join("target/package/debug");
    let entries = std::fs::read_dir(&folder).expect("target/package/debug: run ./deploy/package --debug");
    let mut found =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.to_string_lossy().ends_with(ending));
    found.next().unwrap_or_else(|| panic!("{} has no {ending}: run ./deploy/package --debug", folder.display()))
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    text(&output)
}

/// The servers that `./deploy/need` fetched, and the system's own programs; no cargo.
fn path_without_compiler() -> String {
    format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", repository().join(".deployd/bin").display())
}

fn in_tarball(root: &Path, program: &str) -> Command {
    let mut command = Command::new(root.join(program));
    command.env_clear().env("PATH", path_without_compiler()).env("HOME", root).current_dir(root);
    command
}

#[test]
fn a_cluster_starts_from_the_tarball_without_a_compiler() {
    let folder = tempfile::tempdir().expect("a folder");
    run(Command::new("tar")
        .arg("-xzf")
        .arg(package(".tar.gz"))
        .arg("--strip-components=1")
        .arg("-C")
        .arg(folder.path()));
    let data = folder.path().join("run").display().to_string();
    run(in_tarball(folder.path(), "deploy/up").args(["--detach", "--no-demo", "--port", "0", "--dir", &data]));
    let status = in_tarball(folder.path(), "bin/deployctl").args(["--dir", &data, "status"]).output();
    // Down before any assertion: a failed test leaves no process behind.
    run(in_tarball(folder.path(), "bin/deployctl").args(["--dir", &data, "down"]));
    let status = status.expect("deployctl runs");
    assert!(status.status.success() && text(&status).contains("leader: scheduler-"), "{}", text(&status));
}

#[test]
fn the_debian_package_has_each_program_that_its_units_start() {
    let folder = tempfile::tempdir().expect("a folder");
    run(Command::new("dpkg-deb").arg("-x").arg(package(".deb")).arg(folder.path()));
    for process in ["agent", "apiserver", "notifier", "scheduler"] {
        let unit = folder.path().join(format!("usr/lib/systemd/system/deployd-{process}.service"));
        let unit = std::fs::read_to_string(&unit).unwrap_or_else(|error| panic!("{}: {error}", unit.display()));
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/")).expect("a program");
        run(Command::new(folder.path().join(start)).arg("--version"));
        assert!(folder.path().join(format!("etc/deployd/{process}.env")).exists(), "{process} has no settings");
    }
    run(Command::new(folder.path().join("usr/bin/deployctl")).arg("--version"));
}
