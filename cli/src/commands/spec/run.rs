//! `run`: creates a PodGroup from flags.

use super::Error;
use crate::api::Api;
use crate::args::Run;
use crate::commands::apply;
use crate::document::difference::{self, Difference};
use crate::document::{self, Document};
use crate::short;

/// `deployctl run`; `api` is not called with `--dry-run`.
pub async fn run(api: impl FnOnce() -> Result<Api, crate::Error>, asked: &Run) -> Result<(), crate::Error> {
    let document = written(asked)?;
    if asked.dry_run {
        println!("{}", short::to_short_yaml(&document.spec).trim_end());
        return Ok(());
    }
    let api = api()?;
    let name = &document.spec.name;
    if let Some(current) = api.group(name).await? {
        let (_, difference) = apply::difference(&document, &current.spec)?;
        if difference != Difference::default() {
            let fields = difference::paths(&difference.changes(&current.spec));
            return Err(Error::Exists { name: name.clone(), fields }.into());
        }
    }
    Ok(apply::apply_document(&api, &document, None, &asked.waiting).await?)
}

/// The document that the flags describe.
fn written(asked: &Run) -> Result<Document, Error> {
    let name = asked.name.clone().unwrap_or_else(|| name_of_image(&asked.image));
    let mut keys = vec![("name", name), ("image", asked.image.clone())];
    keys.extend(asked.memory.clone().map(|memory| ("memory", memory)));
    keys.extend(asked.cpu.clone().map(|cpu| ("cpu", cpu)));
    let yaml = short::document(&keys, asked.replicas, asked.port, &asked.env);
    document::read(&yaml).map(|mut documents| documents.swap_remove(0)).map_err(Error::Flags)
}

/// `registry:5000/team/nginx:1.27@sha256:…` is `nginx`.
fn name_of_image(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    last.split([':', '@']).next().unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_the_name_of_its_image() {
        for (image, name) in [("nginx", "nginx"), ("nginx:1.27", "nginx"), ("registry:5000/team/web@sha256:00", "web")]
        {
            assert_eq!(name_of_image(image), name);
        }
    }
}
