//! `get`, `ls` and `ps`: lists of groups, instances and nodes, and one group with its instances.

use std::collections::BTreeSet;

use contract::api::{Node, PodGroupLine, PodGroupWithSpec};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use crate::api::{self, Api};
use crate::args::{self, GetWhat, ListOutput, Scope, Selector, matches};
use crate::output::list;
use crate::output::{self, lists, table};
use crate::short;

/// Groups that are read at the same time.
const AT_ONCE: usize = 8;

/// `deployctl get`
pub async fn get(api: &Api, what: &GetWhat) -> Result<(), api::Error> {
    match what {
        GetWhat::Podgroup(asked) => groups(api, asked).await,
        GetWhat::Instances(asked) => instances(api, asked).await,
        GetWhat::Nodes(asked) => {
            let read =
                async || Ok(output::node::list(&nodes(api, asked.name.as_deref(), asked.selector.as_ref()).await?));
            list::show(asked.listing, read).await
        }
        GetWhat::All(asked) => all(api, asked).await,
    }
}

/// `deployctl get podgroup` and `deployctl ls`
pub async fn groups(api: &Api, asked: &args::Groups) -> Result<(), api::Error> {
    match asked.name.as_deref().filter(|name| !name.contains('*') && !asked.listing.watch) {
        Some(name) => group(api, name, asked.listing.output).await,
        None => {
            let read = async || {
                let found = lines(api, asked.name.as_deref(), &asked.scope).await?;
                Ok(lists::groups(&labelled(api, found, asked.selector.as_ref()).await?))
            };
            list::show(asked.listing, read).await
        }
    }
}

/// `deployctl get instances` and `deployctl ps`
pub async fn instances(api: &Api, asked: &args::Instances) -> Result<(), api::Error> {
    let read = async || {
        let lines = lines(api, asked.name.as_deref(), &asked.scope).await?;
        if let Some(name) = asked.name.as_deref().filter(|name| !name.contains('*') && lines.is_empty()) {
            return Err(api::Error::no_group(name));
        }
        let groups = details(api, &lines).await?;
        let selected = groups.iter().filter(|group| is_labelled(group, asked.selector.as_ref()));
        Ok(lists::instances(selected, asked.node.as_deref()))
    };
    list::show(asked.listing, read).await
}

async fn all(api: &Api, asked: &args::All) -> Result<(), api::Error> {
    let lines = lines(api, None, &asked.scope).await?;
    let groups = details(api, &lines).await?;
    let parts = [
        ("PodGroups", lists::groups(&lines)),
        ("Instances", lists::instances(groups.iter(), None)),
        ("Nodes", output::node::list(&nodes(api, None, None).await?)),
    ];
    let value = || parts.iter().map(|(name, list)| ((*name).to_owned(), list.value())).collect();
    match asked.output {
        ListOutput::Json => output::print_json(&serde_json::Value::Object(value())),
        ListOutput::Yaml => output::print_yaml(&serde_json::Value::Object(value())),
        ListOutput::Table | ListOutput::Wide | ListOutput::Name => {
            for (index, (_, list)) in parts.iter().enumerate() {
                if index > 0 && asked.output != ListOutput::Name {
                    println!("");
                }
                list.print(asked.output);
            }
        }
    }
    Ok(())
}

async fn group(api: &Api, name: &str, output: ListOutput) -> Result<(), api::Error> {
    let group = api.group(name).await?.ok_or_else(|| api::Error::no_group(name))?;
    match output {
        ListOutput::Json => output::print_json(&json!(group)),
        // The short form, which `apply` reads.
        ListOutput::Yaml => println!("{}", short::to_short_yaml(&group.spec).trim_end()),
        ListOutput::Name => println!("{}", group.spec.name),
        ListOutput::Table | ListOutput::Wide => {
            println!("{}", lists::head(&group));
            if output == ListOutput::Wide {
                lists::instances(std::iter::once(&group), None).print(output);
            } else {
                table::instances(&group).print();
            }
        }
    }
    Ok(())
}

/// The groups of a scope whose names match a pattern.
async fn lines(api: &Api, pattern: Option<&str>, scope: &Scope) -> Result<Vec<PodGroupLine>, api::Error> {
    let mut lines = match scope.namespace() {
        Some(namespace) => api.groups_of(namespace).await?,
        None => api.groups().await?,
    };
    lines.retain(|line| pattern.is_none_or(|pattern| matches(pattern, &line.name)));
    Ok(lines)
}

/// The groups with their specs and instances; without those that were deleted meanwhile.
pub(crate) async fn details(api: &Api, lines: &[PodGroupLine]) -> Result<Vec<PodGroupWithSpec>, api::Error> {
    let names: Vec<String> = lines.iter().map(|line| line.name.clone()).collect();
    let read = stream::iter(names).map(|name| async move { api.group(&name).await }).buffered(AT_ONCE);
    let found: Vec<Option<PodGroupWithSpec>> = read.try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

async fn labelled(
    api: &Api,
    mut lines: Vec<PodGroupLine>,
    selector: Option<&Selector>,
) -> Result<Vec<PodGroupLine>, api::Error> {
    if selector.is_some() {
        let groups = details(api, &lines).await?;
        let chosen = groups.iter().filter(|group| is_labelled(group, selector));
        let chosen: BTreeSet<&str> = chosen.map(|group| group.spec.name.as_str()).collect();
        lines.retain(|line| chosen.contains(line.name.as_str()));
    }
    Ok(lines)
}

fn is_labelled(group: &PodGroupWithSpec, selector: Option<&Selector>) -> bool {
    let label = |key: &str| group.spec.pod.labels.get(key).map(String::as_str);
    selector.is_none_or(|selector| selector.matches(label))
}

pub(crate) async fn nodes(
    api: &Api,
    pattern: Option<&str>,
    selector: Option<&Selector>,
) -> Result<Vec<Node>, api::Error> {
    let mut nodes = api.nodes().await?;
    nodes.retain(|node| {
        let label = |key: &str| node.labels.get(key).map(String::as_str);
        pattern.is_none_or(|pattern| matches(pattern, &node.name)) && selector.is_none_or(|it| it.matches(label))
    });
    Ok(nodes)
}
