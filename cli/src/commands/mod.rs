//! The commands, one module each, and [`run`], which picks the one that the user typed.

pub mod apply;
pub mod audit;
pub mod auth;
pub mod backup;
pub mod bus_keys;
pub mod ca;
pub mod completion;
pub mod confirm;
pub mod delete;
pub mod depends;
pub mod describe;
pub mod doctor;
pub mod drift;
pub mod events;
pub mod get;
pub mod health;
pub mod hint;
pub mod login;
pub mod logs;
pub mod node;
pub mod operate;
pub mod plan;
pub mod policy;
pub mod proxy;
pub mod rollout;
pub mod scale;
pub mod spec;
pub mod status;
pub mod switches;
pub mod token;
pub mod up;
pub mod wait;
pub mod why;

use devcluster::docker::Engine;

use crate::api::Api;
use crate::args::{self, Args, AuthWhat, Command, DeleteWhat};
use crate::exit::Exit;
use crate::output::{question, terminal};
use crate::{Error, endpoint};

/// Runs the command.
pub async fn run(args: &Args) -> Result<Exit, Error> {
    terminal::prepare(args.color);
    let dir = || endpoint::directory(&args.endpoint);
    let api = || -> Result<Api, Error> { Ok(endpoint::api(&args.endpoint)?) };
    match &args.command {
        Command::Up(flags) => up::up(&dir(), flags).await?,
        Command::Down(flags) => up::down::down(&dir(), flags).await?,
        Command::Supervise => devcluster::start::supervise(&dir()).await?,
        Command::Status { output } => return well(status::status(&dir(), &api()?, *output).await?),
        Command::Health(flags) => return well(health::health(flags, args.endpoint.ca.as_deref()).await?),
        Command::Clear(flags) => clear(flags).await?,
        Command::Apply(flags) => apply::apply(&api()?, flags).await?,
        Command::Convert(flags) => spec::convert(flags)?,
        Command::Explain(flags) => spec::explain(flags)?,
        Command::Init(flags) => spec::init(flags)?,
        Command::Run(flags) => spec::run(api, flags).await?,
        Command::Set(flags) => spec::set(&api()?, &flags.what).await?,
        Command::Plan(flags) => return Ok(plan::plan(&api()?, flags).await?),
        Command::Rollout(flags) => rollout::rollout(&api()?, &flags.what).await?,
        Command::Gate(flags) => rollout::gate(&api()?, flags).await?,
        Command::Drained(flags) => rollout::drained(&api()?, flags).await?,
        Command::Get(flags) => get::get(&api()?, &flags.what).await?,
        Command::Ls(flags) => get::groups(&api()?, flags).await?,
        Command::Ps(flags) => get::instances(&api()?, flags).await?,
        Command::Describe(flags) => describe::describe(&api()?, &flags.what).await?,
        Command::Why(flags) => {
            return Ok(if why::why(&api()?, &flags.name).await? { Exit::Done } else { Exit::Failed });
        }
        Command::Doctor(flags) => {
            return Ok(if doctor::doctor(&args.endpoint, flags.output).await { Exit::Done } else { Exit::Failed });
        }
        Command::Delete(flags) => match &flags.what {
            Some(DeleteWhat::Podgroup(asked)) => delete::delete(&api()?, asked).await?,
            None => delete::delete(&api()?, &flags.asked).await?,
        },
        Command::Scale(flags) => scale::scale(&api()?, flags).await?,
        Command::Start(flags) => operate::operate(&api()?, operate::InstanceOperation::Start, flags).await?,
        Command::Stop(flags) => operate::operate(&api()?, operate::InstanceOperation::Stop, flags).await?,
        Command::Restart(flags) => operate::operate(&api()?, operate::InstanceOperation::Restart, flags).await?,
        Command::Drift(flags) => drift::drift(&api()?, flags).await?,
        Command::Evacuate(flags) => drift::evacuate(&api()?, flags).await?,
        Command::Node(flags) => node::node(&api()?, &flags.what).await?,
        Command::Depends(flags) => depends::depends(&api()?, &flags.what).await?,
        Command::Logs(flags) => return Ok(logs::logs(&api()?, flags).await?),
        Command::Events(flags) => events::events(&api()?, flags).await?,
        Command::DeadLetters(flags) => events::dead_letters(&api()?, flags).await?,
        Command::Engine(flags) => switches::engine(&api()?, &flags.what).await?,
        Command::Guard(flags) => switches::guard(&api()?, flags.what).await?,
        Command::Constraints(flags) => switches::constraints(&api()?, &flags.what).await?,
        Command::Policy(flags) => policy::policy(&api()?, &flags.what).await?,
        Command::Login(flags) => login::login(&args.endpoint, flags).await?,
        Command::Logout(flags) => login::logout(flags)?,
        Command::Context(flags) => login::context(&args.endpoint, &flags.what)?,
        Command::Token(flags) => token::token(&api()?, &flags.what).await?,
        Command::Auth(flags) => match &flags.what {
            AuthWhat::Matrix { routes, output } => auth::matrix(*routes, *output),
            what => auth::auth(&api()?, what).await?,
        },
        Command::Audit(flags) => audit::audit(&api()?, &flags.what).await?,
        Command::Proxy(flags) => proxy::proxy(&api()?, flags).await?,
        Command::Completion(flags) => completion::completion(flags.shell),
        Command::BusKeys(flags) => bus_keys::bus_keys(flags)?,
        Command::Ca(flags) => ca::ca(&flags.what)?,
        Command::Backup(flags) => backup::backup(&api()?, flags).await?,
        Command::Restore(flags) => backup::restore(&api()?, flags).await?,
        Command::Notifies(flags) => switches::notifies(&api()?, &flags.what).await?,
    }
    Ok(Exit::Done)
}

fn well(is_well: bool) -> Result<Exit, Error> {
    if is_well { Ok(Exit::Done) } else { Err(Error::Unwell) }
}

/// `deployctl clear`
async fn clear(args::Clear { cluster, yes }: &args::Clear) -> Result<(), Error> {
    // A script names the cluster and means it; a person may have mistyped.
    if !yes && question::can_ask() {
        confirm::ask(&format!("removes the containers and networks of {cluster} from this machine"), "--yes")?;
    }
    let removed = Engine::connect().await?.remove_cluster(cluster).await?;
    println!("removed {} containers and {} networks of {cluster}", removed.containers, removed.networks);
    Ok(())
}
