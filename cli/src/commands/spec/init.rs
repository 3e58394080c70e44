//! `init`: writes a commented document.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use super::{Error, directory_name};
use crate::args::Init;
use crate::document;

const FILE: &str = "deployd.yaml";

/// `deployctl init`
pub fn init(asked: &Init) -> Result<(), crate::Error> {
    let name = asked.name.clone().unwrap_or_else(|| default_name(&asked.dir));
    let text = template(&name, &asked.image, asked.port);
    document::read(&text).map_err(Error::Flags)?;
    let path = asked.dir.join(FILE);
    write(&asked.dir, &path, &text)?;
    let path = path.display();
    println!("wrote {path}; edit it, then run:\n  deployctl plan -f {path}\n  deployctl apply -f {path}");
    Ok(())
}

fn write(dir: &Path, path: &Path, text: &str) -> Result<(), Error> {
    let failed = |source: std::io::Error| match source.kind() {
        ErrorKind::AlreadyExists => Error::FileExists(path.to_owned()),
        _ => Error::Write { path: path.to_owned(), source },
    };
    fs::create_dir_all(dir).map_err(|source| Error::Write { path: dir.to_owned(), source })?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}

/// The group of a directory: `shop` is `shop.web`.
fn default_name(dir: &Path) -> String {
    format!("{}.web", directory_name(dir).unwrap_or_else(|| "hello".to_owned()))
}

fn template(name: &str, image: &str, port: u16) -> String {
    format!(
        "\
# A PodGroup of deployd. `deployctl explain` lists all keys, `deployctl explain KEY` shows one.
name: {name:<20} # the part before the first dot is the namespace
image: \"{image}\"
replicas: 2
port: {port:<20} # the cluster publishes it on a port of the node

# Environment variables
#env:
#  GREETING: hello

# Limits. Without them memory is unlimited, and the CPU is 1 core.
#memory: 256Mi
#cpu: 0.5

# The node checks the instance over HTTP; the image needs no program for it.
#health:
#  http: /
#  port: {port}
#  every: 5s

# Paths that are stored on the node, one directory for each instance
#volumes: [/data]

# Nodes with this label only
#place: [disk==ssd]

restart: always            # always, on-failure or never
strategy: rolling          # rolling, batch, beta, recreate or serial
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_and_every_example_in_it_are_valid() {
        let text = template("shop.web", "nginx:1.27", 80);
        let group = &document::read(&text).unwrap()[0].spec;
        assert_eq!((group.name.as_str(), group.num_instances, group.pod.containers[0].expose), ("shop.web", 2, 80));
        let lines = text
            .lines()
            .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ') || rest.starts_with("  ")));
        let all: Vec<&str> = lines.zip(text.lines()).map(|(example, line)| example.unwrap_or(line)).collect();
        let all = &document::read(&all.join("\n")).unwrap()[0].spec.pod;
        assert_eq!((all.containers[0].env.as_slice(), all.filters.len()), (&["GREETING=hello".to_owned()][..], 1));
        let check = all.health_config.readiness.as_ref().map(|check| (check.port, check.period));
        assert_eq!((check, all.containers[0].memory_limit), (Some((80, 5)), 256 << 20));
    }

    #[test]
    fn a_group_is_named_after_its_directory() {
        for (dir, name) in [("/x/My Shop", "myshop.web"), ("/", "hello.web"), ("/x/-a-1", "a-1.web")] {
            assert_eq!(default_name(Path::new(dir)), name);
        }
    }
}
