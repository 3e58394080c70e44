//! Checks the sources of bind mounts before each start of a container that a policy restrains.

use contract::policy::Bind;

use super::{Engine, READ, requests};
use crate::container::Plan;
use crate::fault::Error;
use crate::volumes::{self, VolumeDir};

/// Creates the directories of the volumes, and refuses links.
pub(super) async fn check(plan: &Plan) -> Result<(), Error> {
    if plan.restraints.is_none() {
        return Ok(());
    }
    let own: Vec<String> = plan.volume_dirs.iter().map(|dir| format!("{}{}:", dir.root, dir.path)).collect();
    let is_own = |bind: &&String| own.iter().any(|own| bind.starts_with(own.as_str()));
    let host = plan.binds.iter().filter(|bind| !is_own(bind)).filter_map(|bind| Bind::parse(bind)).collect();
    examine(plan.volume_dirs.clone(), host).await
}

async fn examine(dirs: Vec<VolumeDir>, host: Vec<Bind>) -> Result<(), Error> {
    let walk = move || {
        dirs.iter().try_for_each(VolumeDir::ensure)?;
        host.iter().try_for_each(volumes::check_host_path)
    };
    // A file system may hang; the action of this instance waits for it, others do not.
    let walked = tokio::task::spawn_blocking(walk).await;
    let walked = walked.map_err(|error| Error::Forbidden(format!("could not check the volumes: {error}")))?;
    walked.map_err(|error| Error::Forbidden(error.to_string()))
}

impl Engine {
    /// The same for a container that exists: it may have changed what it could write since its last start.
    pub(super) async fn recheck_binds(&self, id: &str) -> Result<(), Error> {
        let found = match self.call(READ, async |docker| docker.inspect_container(id, None).await).await {
            Err(error) if error.status() == 404 => return Ok(()),
            found => found?,
        };
        let Some(config) = found.host_config else { return Ok(()) };
        let options = config.security_opt.unwrap_or_default();
        if !options.iter().any(|option| option == requests::NO_NEW_PRIVILEGES) {
            return Ok(());
        }
        let roots = [&self.host.volume_root, &self.host.cloud_volume_root];
        let (mut dirs, mut host) = (Vec::new(), Vec::new());
        for text in config.binds.unwrap_or_default() {
            let of_root = |root: &&String| Some((root.to_string(), text.strip_prefix(root.as_str())?.to_owned()));
            match roots.iter().find_map(of_root).filter(|(_, rest)| rest.starts_with('/')) {
                Some((root, rest)) => {
                    let path = rest.split(':').next().unwrap_or_default().to_owned();
                    dirs.push(VolumeDir { root, path });
                }
                None => host.extend(Bind::parse(&text)),
            }
        }
        examine(dirs, host).await
    }
}
