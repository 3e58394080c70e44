//! The controller in a fake cluster, by example and over random histories.

mod batches;
mod chaos;
mod cluster;
mod control;
mod dry_run;
mod failures;
mod histories;
mod quotas;
mod rebalance;
mod rolling;
mod scaling;
mod states;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::cluster::*;
use super::*;
use crate::rollout::availability::Ready;
use crate::rollout::batches::{BatchKind, Spread};
use crate::rollout::limits::{PodReplacement, RolloutLimits};
use crate::rollout::moment::Moment;
use crate::rollout::numbers::Amount;
use crate::rollout::properties::property;
use crate::rollout::ranking::PodPhase;
use crate::rollout::transition::{self, RolloutPhase};
