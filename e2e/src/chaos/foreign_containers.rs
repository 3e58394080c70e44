//! Containers that are nobody's of the cluster under test, however much they look like it: whoever touches them is wrong.

use std::collections::HashMap;

use contract::labels;

use crate::cluster::docker::Engine;
use crate::cluster::extra_node::NAME;
use crate::cluster::{Error, IMAGE};

/// The containers; dropping them removes them.
#[derive(Debug)]
pub(crate) struct ForeignContainers(Vec<ForeignContainer>);

#[derive(Debug)]
struct ForeignContainer {
    id: String,
    started_at: Option<String>,
}

impl ForeignContainers {
    /// Starts one without labels, one of another cluster's node of the same name, and one of another node of this cluster.
    pub(crate) async fn start(cluster: &str) -> Result<Self, Error> {
        let engine = Engine::connect()?;
        let mut all = Self(Vec::new());
        for (word, labels) in
            [("bare", HashMap::new()), ("cluster", pod_of("another", NAME)), ("node", pod_of(cluster, "elsewhere"))]
        {
            let id = engine.run(&format!("bystander-{word}-{cluster}"), IMAGE, labels).await?;
            all.0.push(ForeignContainer { started_at: engine.started_at(&id).await, id });
        }
        Ok(all)
    }

    /// Every one that is not as it was.
    pub(crate) async fn disturbed(&self) -> Vec<String> {
        let Ok(engine) = Engine::connect() else { return Vec::new() };
        let mut disturbed = Vec::new();
        for ForeignContainer { id, started_at } in &self.0 {
            let now = engine.started_at(id).await;
            if now != *started_at {
                disturbed.push(format!("{id} was started at {started_at:?}, now {now:?}"));
            }
        }
        disturbed
    }

    /// Whether it is one of these.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.0.iter().any(|bystander| bystander.id == id)
    }
}

/// The labels of an instance of some group.
fn pod_of(cluster: &str, node: &str) -> HashMap<String, String> {
    let labels = [
        (labels::POD_NAME, "bystander.web.web"),
        (labels::POD_NAMESPACE, "bystander"),
        (labels::INSTANCE, "1"),
        (labels::VERSION, "0"),
        (labels::DRIFT, "0"),
        (labels::CONTAINER_INDEX, "0"),
        (labels::CLUSTER, cluster),
        (labels::NODE, node),
    ];
    labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

impl Drop for ForeignContainers {
    fn drop(&mut self) {
        let ids: Vec<String> = self.0.drain(..).map(|bystander| bystander.id).collect();
        // A thread of its own: whoever drops this may be in the middle of a runtime.
        let removal = std::thread::spawn(move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
            runtime.block_on(async {
                let Ok(engine) = Engine::connect() else { return };
                for id in ids {
                    if let Err(error) = engine.remove(&id).await {
                        eprintln!("the container {id} is left behind: {error}");
                    }
                }
            });
        });
        if removal.join().is_err() {
            eprintln!("bystanders may be left behind");
        }
    }
}
