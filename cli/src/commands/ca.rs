//! `deployctl ca`: a certificate authority for a cluster that runs on several machines.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fabric::certificates::{self, Authority};

use crate::args::CaWhat;

const CA: &str = "ca";
/// The servers that `init` makes certificates for.
const SERVERS: [&str; 3] = ["api", "nats", "etcd"];
/// The certificate of deployd's own processes. etcd takes its name for the name of a user.
const CLIENT: (&str, &str) = ("client", "deployd");
/// Every server may be reached on its own machine too.
const OWN: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} already holds a CA; `deployctl ca issue` makes further certificates", .0.display())]
    Exists(PathBuf),
    #[error("`deployctl ca init` needs --host: the names and addresses under which the servers are reached")]
    NoHost,
    #[error("cannot read {}; `deployctl ca init` makes a CA", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Certificate(#[from] certificates::Error),
}

pub fn ca(what: &CaWhat) -> Result<(), Error> {
    match what {
        CaWhat::Init { dir, certified } => init(dir, &certified.hosts, certified.days),
        CaWhat::Issue { dir, name, certified } => {
            issue(&open(dir)?, dir, name, (name, &certified.hosts), certified.days)?;
            println!("{} and its key; processes use renewed files without a restart", pem(dir, name).display());
            Ok(())
        }
    }
}

fn init(dir: &Path, hosts: &[String], days: u32) -> Result<(), Error> {
    if pem(dir, CA).exists() || key(dir, CA).exists() {
        return Err(Error::Exists(dir.to_owned()));
    }
    if hosts.is_empty() {
        return Err(Error::NoHost);
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|source| Error::Write { path: dir.to_owned(), source })?;
    let (authority, secret) = Authority::create(SystemTime::now())?;
    write(&key(dir, CA), &secret, 0o600)?;
    write(&pem(dir, CA), authority.certificate(), 0o644)?;
    for server in SERVERS {
        issue(&authority, dir, server, (server, hosts), days)?;
    }
    let (file, user) = CLIENT;
    issue(&authority, dir, file, (user, &[]), days)?;
    println!("certificates in {}, valid for {days} days: {}, {file}", dir.display(), SERVERS.join(", "));
    println!("CA SHA-256 {}", authority.hash()?);
    Ok(())
}

fn open(dir: &Path) -> Result<Authority, Error> {
    let read = |path: PathBuf| fs::read_to_string(&path).map_err(|source| Error::Read { path, source });
    Ok(Authority::open(&read(pem(dir, CA))?, &read(key(dir, CA))?)?)
}

/// Writes the certificate of `subject`, its name and hosts, to `file`.
fn issue(
    authority: &Authority,
    dir: &Path,
    file: &str,
    (name, hosts): (&str, &[String]),
    days: u32,
) -> Result<(), Error> {
    let own = OWN.iter().map(|host| (*host).to_owned()).filter(|_| !hosts.is_empty());
    let hosts: Vec<String> = hosts.iter().cloned().chain(own.filter(|own| !hosts.contains(own))).collect();
    let issued = authority.issue(name, &hosts, days, SystemTime::now())?;
    write(&key(dir, file), &issued.key, 0o600)?;
    write(&pem(dir, file), &issued.certificate, 0o644)
}

fn pem(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.pem"))
}

fn key(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}-key.pem"))
}

/// Writes a file by rename: a reader finds the old one or the new one.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let new = path.with_extension("pem.new");
    // What a process that was killed left behind would keep its mode.
    drop(fs::remove_file(&new));
    let written = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    });
    written.map_err(|source| Error::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_ca_is_made_once_and_its_keys_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("tls");
        let hosts = ["api.example".to_owned(), "127.0.0.1".to_owned()];
        assert!(matches!(init(&dir, &[], 1), Err(Error::NoHost)));
        init(&dir, &hosts, 1).unwrap();
        assert!(matches!(init(&dir, &hosts, 1), Err(Error::Exists(_))));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        for name in ["ca", "api", "nats", "etcd", "client"] {
            assert_eq!((mode(&pem(&dir, name)), mode(&key(&dir, name))), (0o644, 0o600), "{name}");
        }
    }

    #[test]
    fn a_certificate_is_renewed_by_the_ca_in_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        init(folder.path(), &["api.example".to_owned()], 1).unwrap();
        let before = fs::read(pem(folder.path(), "nats")).unwrap();
        let private = key(folder.path(), "nats");
        for file in [private.clone(), private.with_extension("pem.new")] {
            fs::write(&file, "of another program").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        }
        issue(&open(folder.path()).unwrap(), folder.path(), "nats", ("nats", &["nats".to_owned()]), 1).unwrap();
        assert_ne!(fs::read(pem(folder.path(), "nats")).unwrap(), before);
        assert_eq!(fs::metadata(private).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(open(&folder.path().join("none")), Err(Error::Read { .. })));
    }
}
