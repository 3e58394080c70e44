//! The texts of `up` once the cluster runs.

use std::path::Path;

use contract::api::PodGroupWithSpec;

use crate::args::Endpoint;
use crate::contexts::Contexts;
use crate::endpoint;
use crate::output::table;
use devcluster::state::Cluster;

/// The demo, the URLs and what to try next.
pub fn cluster(dir: &Path, cluster: &Cluster, demo: Option<&PodGroupWithSpec>) {
    if let Some(group) = demo {
        println!("\n{}", group.spec.name);
        table::instances(group).print();
    }
    println!("\nAPI       {}", cluster.api.join("  "));
    println!("nodes     {}", cluster.nodes.join("  "));
    println!("\nTry next:");
    let program = program(dir);
    match demo {
        Some(group) => {
            let name = &group.spec.name;
            if let Some(address) = group.pods.first().map(table::address).filter(|address| !address.is_empty()) {
                println!("  curl http://{address}");
            }
            println!("  {program} scale {name} 6");
        }
        None => println!("  {program} apply -f deploy/demo-podgroup.json"),
    }
    println!("  {program} status");
}

/// The last line of `up --detach`.
pub fn leave_running(dir: &Path) {
    println!("\nThe cluster runs in the background; logs are in {}.", dir.join("logs").display());
    println!("`{} down` stops it.", program(dir));
}

/// The last line of `up` in the foreground.
pub fn until_interrupted() {
    println!("\nCtrl-C stops the cluster and removes its containers and PodGroups.");
}

/// How to call this program from here, for the cluster of `dir`.
fn program(dir: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let short = |path: &Path| path.strip_prefix(&here).unwrap_or(path).display().to_string();
    let program = std::env::current_exe().map_or_else(|_| "deployctl".to_owned(), |path| short(&path));
    // A context in use comes before the local cluster.
    let has_context = Contexts::load().is_ok_and(|contexts| contexts.current.is_some());
    if dir == endpoint::directory(&Endpoint::default()) && !has_context {
        program
    } else {
        format!("{program} --dir {}", short(dir))
    }
}
