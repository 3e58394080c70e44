//! Processes of the cluster are killed and stopped, one after another.

use super::Scenario;
use crate::chance::Chance;
use crate::cluster::{Cluster, Error};
use crate::fault::{self, Fault, Happened};

/// What is done, in this order.
#[derive(Debug)]
pub(crate) struct Kills(pub(crate) Vec<Fault>);

impl Scenario for Kills {
    async fn hurt(&mut self, cluster: &Cluster, chance: &mut Chance) -> Result<Vec<Happened>, Error> {
        let mut happened = Vec::new();
        for one in &self.0 {
            happened.push(fault::perform(cluster, one, chance).await?);
        }
        Ok(happened)
    }
}
