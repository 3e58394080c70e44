//! Kills and stops processes of the cluster, one after another.
use testkit::random::Random;

use super::Scenario;
use crate::chaos::fault::{self, Fault, InjectedFault};
use crate::cluster::{Cluster, Error};

#[derive(Debug)]
pub(crate) struct Kills(pub(crate) Vec<Fault>);

impl Scenario for Kills {
    async fn inject_faults(&mut self, cluster: &Cluster, random: &mut Random) -> Result<Vec<InjectedFault>, Error> {
        let mut happened = Vec::new();
        for one in &self.0 {
            happened.push(fault::perform(cluster, one, random).await?);
        }
        Ok(happened)
    }
}
