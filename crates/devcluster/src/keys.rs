//! The keys of a cluster: what each process proves itself with on NATS, and what schedulers sign orders with.
//!
//! `etcd` holds the certificates of etcd and of its clients. `bus/<user>` holds `user:seed`, `orders/<scheduler>` a scheduler's private key, `orders.pub` the public keys for the agents.
//! Keys that exist are kept. Only their owner may read them.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use contract::bus::Identity;
use fabric::bus_accounts::{self, User};
use fabric::certificates::Authority;
use fabric::signing::OrderSigner;

use crate::Error;

/// Every start makes new certificates, so this is how long a cluster may run.
const ETCD_DAYS: u32 = 3_650;

/// Paths of the keys.
#[derive(Debug, Clone)]
pub struct Keys(PathBuf);

impl Keys {
    /// Of the local cluster in `dir`.
    pub fn of(dir: &Path) -> Self {
        Self(dir.join("keys"))
    }

    pub fn in_folder(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// The file that proves a process to NATS.
    pub fn bus(&self, identity: &Identity) -> PathBuf {
        self.0.join("bus").join(identity.user())
    }

    /// The file that a scheduler signs orders with.
    pub fn signing(&self, scheduler: &str) -> PathBuf {
        self.0.join("orders").join(scheduler)
    }

    /// The file with which agents check orders.
    pub fn public(&self) -> PathBuf {
        self.0.join("orders.pub")
    }

    /// The folder with the certificates of etcd: `ca.pem`, and `etcd` and `client` with their keys.
    pub fn etcd(&self) -> PathBuf {
        self.0.join("etcd")
    }

    /// Creates the certificates of etcd anew. Nothing else trusts this CA, whose key is not kept.
    pub fn renew_etcd(&self) -> Result<(), Error> {
        let path = self.etcd();
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|source| Error::Prepare { path, source })?;
        let now = SystemTime::now();
        let (authority, _) = Authority::create(now).map_err(Error::Certificate)?;
        write_secret(&self.etcd().join("ca.pem"), authority.certificate())?;
        for (file, name, hosts) in [("etcd", "etcd", &["127.0.0.1".to_owned()][..]), ("client", "deployd", &[])] {
            let issued = authority.issue(name, hosts, ETCD_DAYS, now).map_err(Error::Certificate)?;
            write_secret(&self.etcd().join(format!("{file}.pem")), &issued.certificate)?;
            write_secret(&self.etcd().join(format!("{file}-key.pem")), &issued.key)?;
        }
        Ok(())
    }

    /// The processes that have a key here.
    pub fn known(&self) -> Vec<Identity> {
        let Ok(files) = fs::read_dir(self.0.join("bus")) else { return Vec::new() };
        files.flatten().filter_map(|file| Identity::of_user(file.file_name().to_str()?)).collect()
    }

    /// Removes the key of a process; its access ends when the NATS servers have accounts without it.
    pub fn remove(&self, identity: &Identity) -> Result<(), Error> {
        let path = self.bus(identity);
        fs::remove_file(&path).map_err(|source| Error::Prepare { path, source })
    }

    /// Creates what is missing; gives the users of the NATS server.
    pub fn ensure(&self, identities: &[Identity], schedulers: &[String]) -> Result<Vec<User>, Error> {
        for folder in ["bus", "orders"] {
            let path = self.0.join(folder);
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(|source| Error::Prepare { path, source })?;
        }
        let users = identities.iter().map(|identity| self.ensure_user(identity)).collect::<Result<_, _>>()?;
        let mut public = String::new();
        for scheduler in schedulers {
            let path = self.signing(scheduler);
            match path.exists() {
                true => protect(&path)?,
                false => write_secret(&path, &OrderSigner::generate(scheduler).map_err(Error::Key)?)?,
            }
            public.push_str(&OrderSigner::load(&path).map_err(Error::Key)?.public_line());
        }
        write_secret(&self.public(), &public)?;
        Ok(users)
    }

    fn ensure_user(&self, identity: &Identity) -> Result<User, Error> {
        let path = self.bus(identity);
        let public_key = match fs::read_to_string(&path) {
            Ok(text) => {
                protect(&path)?;
                let seed = text.trim().split_once(':').map(|(_, seed)| seed);
                let damaged = || io::Error::other("the key is damaged; remove the file to get a new one");
                let known = seed.and_then(bus_accounts::public_key).ok_or_else(damaged);
                known.map_err(|source| Error::Prepare { path, source })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (seed, public_key) = bus_accounts::generate_key();
                write_secret(&path, &format!("{}:{seed}\n", identity.user()))?;
                public_key
            }
            Err(source) => return Err(Error::Prepare { path, source }),
        };
        Ok(User { identity: identity.clone(), public_key })
    }
}

/// Writes a file that only this user may read, by rename: a crash leaves the old file or the new one.
fn write_secret(path: &Path, text: &str) -> Result<(), Error> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    // What a process that was killed left behind would keep its mode.
    drop(fs::remove_file(&new));
    let written = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    });
    written.map_err(|source| Error::Prepare { path: path.to_owned(), source })
}

/// Takes the file from other users, who may read it if another program wrote or copied it.
fn protect(path: &Path) -> Result<(), Error> {
    let protected = fs::set_permissions(path, fs::Permissions::from_mode(0o600));
    protected.map_err(|source| Error::Prepare { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use contract::bus::Member;

    use super::*;

    #[test]
    fn keys_are_kept_and_only_their_owner_may_read_them() {
        let dir = tempfile::tempdir().unwrap();
        let keys = Keys::of(dir.path());
        let identities = [Identity { member: Member::Agent, name: "node-1.a".parse().unwrap() }];
        let schedulers = ["scheduler-1".to_owned()];
        let first = keys.ensure(&identities, &schedulers).unwrap();
        let public = fs::read_to_string(keys.public()).unwrap();
        assert_eq!(keys.ensure(&identities, &schedulers).unwrap(), first);
        assert_eq!(fs::read_to_string(keys.public()).unwrap(), public);
        let files = [keys.bus(&identities[0]), keys.signing("scheduler-1"), keys.public()];
        for path in &files {
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        }
        fs::write(dir.path().join("keys/orders.pub.new"), "left behind").unwrap();
        assert_eq!(keys.ensure(&identities, &schedulers).unwrap(), first);
        for path in files {
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
    }
}
