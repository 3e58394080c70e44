//! The systemd units: systemd itself reads them, and they hold what the design depends on.

use std::path::Path;
use std::process::Command;

use crate::cluster::{program, repository, text};

const PROCESSES: [&str; 4] = ["agent", "apiserver", "notifier", "scheduler"];

fn unit(process: &str) -> String {
    let path = repository().join(format!("deploy/systemd/deployd-{process}.service"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn systemd_accepts_every_unit() {
    let folder = tempfile::tempdir().expect("a folder");
    for process in PROCESSES {
        // The programs are not installed here; everything else is verified as it is.
        let name = format!("deployd-{process}");
        let here = program(&name).display().to_string();
        let content = unit(process).replace(&format!("/usr/local/bin/{name}"), &here);
        assert!(content.contains(&here), "{name} is not started from /usr/local/bin");
        let path = folder.path().join(format!("{name}.service"));
        std::fs::write(&path, content).expect("a copy");
        let mut verify = Command::new("systemd-analyze");
        let output = verify.arg("verify").arg(&path).output().expect("systemd-analyze: ./deploy/need gets it");
        assert!(output.status.success() && !text(&output).contains(&name), "{name}: {}", text(&output));
    }
}

#[test]
fn units_are_watched_and_an_agent_takes_no_container_with_it() {
    for process in PROCESSES {
        let lines: Vec<String> = unit(process).lines().map(str::to_owned).collect();
        let sample = format!("deploy/config/{process}.env");
        let file = format!("EnvironmentFile=/etc/deployd/{process}.env");
        for wanted in [
            "Type=notify",
            "WatchdogSec=30s",
            "Restart=always",
            "NoNewPrivileges=yes",
            "UMask=0077",
            "ProtectProc=invisible",
            &file,
        ] {
            assert!(lines.iter().any(|line| line == wanted), "{process} lacks {wanted}");
        }
        assert!(Path::new(&repository()).join(&sample).exists(), "there is no {sample}");
        assert_eq!(lines.iter().any(|line| line == "KillMode=process"), process == "agent");
    }
}
