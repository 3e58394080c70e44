//! `policy`: shows and sets what workloads may request.

use std::time::Duration;

use contract::policy::{EVERY_NAMESPACE, NamespacePolicy, Policy};

use crate::api::{self, Api, Retry};
use crate::args::PolicyWhat;
use crate::output::{list, lists};

const RETRY_FOR: Duration = Duration::from_secs(30);

/// `deployctl policy`
pub async fn policy(api: &Api, what: &PolicyWhat) -> Result<(), api::Error> {
    match what {
        PolicyWhat::List { listing } => {
            let read = async || Ok(lists::policies(&api.policies().await?));
            list::show(*listing, read).await?;
        }
        PolicyWhat::Show { namespace } => {
            let row = api.policy(namespace).await?;
            println!("{}", shown(namespace, &row));
        }
        PolicyWhat::Set { namespace, level, exceptions } => {
            api.set_policy(namespace, &exceptions.policy(*level), &mut retry()).await?;
            println!("the policy of {} is {level}", named(namespace));
        }
        PolicyWhat::Remove { namespace } => {
            api.remove_policy(namespace, &mut retry()).await?;
            let next = if namespace == EVERY_NAMESPACE { "is baseline again" } else { "is that of * again" };
            println!("the policy of {} {next}", named(namespace));
        }
    }
    Ok(())
}

fn shown(namespace: &str, row: &NamespacePolicy) -> String {
    let from = if row.namespace == namespace { String::new() } else { format!(" (that of {})", row.namespace) };
    let exceptions = exceptions(&row.policy);
    let exceptions = if exceptions.is_empty() { "no exceptions".to_owned() } else { exceptions.join("\n") };
    format!("{}: {}{from}\n{exceptions}", named(namespace), row.policy.level)
}

/// The exceptions as the flags that set them.
pub(crate) fn exceptions(policy: &Policy) -> Vec<String> {
    let lists = [
        ("network", &policy.networks),
        ("log-driver", &policy.log_drivers),
        ("capability", &policy.capabilities),
        ("label", &policy.labels),
        ("image", &policy.images),
        ("user", &policy.users),
        ("device", &policy.devices),
    ];
    let suffix = |read_only: bool| if read_only { ":ro" } else { "" };
    let binds = policy.host_binds.iter().map(|bind| format!("--allow-bind {}{}", bind.path, suffix(bind.read_only)));
    let listed = lists.iter().flat_map(|(flag, list)| list.iter().map(move |text| format!("--allow-{flag} {text}")));
    let quota = &policy.quota;
    let limits = [("groups", quota.groups), ("instances", quota.instances), ("containers", quota.containers)];
    let limits = limits.into_iter().filter_map(|(flag, limit)| Some(format!("--max-{flag} {}", limit?)));
    binds.chain(listed).chain(limits).collect()
}

fn named(namespace: &str) -> String {
    match namespace {
        EVERY_NAMESPACE => "namespaces without a policy of their own".to_owned(),
        namespace => format!("namespace {namespace}"),
    }
}

fn retry() -> Retry {
    Retry::for_span(RETRY_FOR, |_| {})
}
