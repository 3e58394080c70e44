//! `get`: shows groups and nodes.

use crate::api::{self, Api};
use crate::args::{GetWhat, Output};
use crate::output::{show, table};

/// `deployctl get`
pub async fn get(api: &Api, what: &GetWhat) -> Result<(), api::Error> {
    match what {
        GetWhat::Podgroup { name: Some(name), output } => group(api, name, *output).await,
        GetWhat::Podgroup { name: None, output } => {
            let lines = api.groups().await?;
            show(*output, &lines, || if lines.is_empty() { "no PodGroups".to_owned() } else { table::groups(&lines) });
            Ok(())
        }
        GetWhat::Nodes { output } => {
            let nodes = api.nodes().await?;
            show(*output, &nodes, || if nodes.is_empty() { "no nodes".to_owned() } else { table::nodes(&nodes) });
            Ok(())
        }
    }
}

async fn group(api: &Api, name: &str, output: Output) -> Result<(), api::Error> {
    let group = api.group(name).await?.ok_or_else(|| api::Error::no_group(name))?;
    show(output, &group, || {
        let head = format!(
            "{}: {}, version {}, {} instances wanted",
            group.spec.name,
            table::word(group.state),
            group.spec.version,
            group.spec.num_instances
        );
        let error =
            if group.last_error.is_empty() { String::new() } else { format!("\nlast error: {}", group.last_error) };
        format!("{head}{error}\n{}", table::instances(&group))
    });
    Ok(())
}
