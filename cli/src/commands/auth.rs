//! `auth`: who the user is for the API, what roles allow, and whether the cluster asks.

use std::time::Duration;

use contract::access::routes::ROUTES;
use contract::access::table::AccessView;
use contract::access::{Binding, Namespaces, Right, Role};
use fabric::clock::Clock;
use serde_json::{Value, json};

use crate::api::{self, Api, Retry};
use crate::args::{AuthWhat, Output};
use crate::output::question::is_confirmed_in_full;
use crate::output::{access, show};

const RETRY_FOR: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Api(#[from] api::Error),
    #[error("nothing was changed: confirm with `yes`, or pass --yes without a terminal")]
    Unconfirmed,
    #[error(
        "nothing was changed, because no admin could change it back: no valid token and no binding for clients without one is \
         admin@*; create one first: deployctl token create NAME --role admin --output FILE"
    )]
    NoAdmin,
}

/// `deployctl auth`, except for the matrix.
pub async fn auth(api: &Api, what: &AuthWhat) -> Result<(), Error> {
    match what {
        AuthWhat::Whoami { output } => {
            let view = api.access().await?;
            show(*output, &view, || whoami(api, &view));
        }
        AuthWhat::Status { output } => {
            let view = api.access().await?;
            show(*output, &view, || access::status(&view));
        }
        AuthWhat::Matrix { routes, output } => matrix(*routes, *output),
        AuthWhat::Enforce { off, yes } => enforce(api, !off, *yes).await?,
    }
    Ok(())
}

fn whoami(api: &Api, view: &AccessView) -> String {
    format!("{} at {}", access::principal(&view.principal, &view.bindings), api.target().describe())
}

/// `deployctl auth matrix`
pub fn matrix(routes: bool, output: Output) {
    if routes {
        show(output, &json_of_routes(), access::routes);
    } else {
        show(output, &json_of_roles(), access::matrix);
    }
}

fn json_of_roles() -> Value {
    let row = |role: Role| {
        let rights: Vec<&str> = Right::ALL.into_iter().filter(|right| role.has(*right)).map(Right::word).collect();
        json!({"Role": role.word(), "Rights": rights, "SeesEnvironment": role.sees_environment()})
    };
    Role::ALL.into_iter().map(row).collect()
}

fn json_of_routes() -> Value {
    let row = |route: &contract::access::routes::RouteRight| {
        let roles: Vec<&str> = Role::ALL.into_iter().filter(|role| role.has(route.right)).map(Role::word).collect();
        json!({"Method": route.method, "Path": route.path, "Right": route.right.word(), "Roles": roles})
    };
    ROUTES.iter().map(row).collect()
}

async fn enforce(api: &Api, enforced: bool, is_sure: bool) -> Result<(), Error> {
    let view = api.access().await?;
    if view.enforced == enforced {
        let state = if enforced { "access control is enforced already" } else { "the cluster is open already" };
        println!("{state}");
        return Ok(());
    }
    if enforced {
        explain(api, &view).await?;
    } else {
        eprintln!("From now on every client that reaches the API may do everything, with a token or without.");
    }
    if !is_sure && !is_confirmed_in_full("Continue?") {
        return Err(Error::Unconfirmed);
    }
    api.enforce_access(enforced, &mut Retry::for_span(RETRY_FOR, |_| {})).await?;
    match enforced {
        true => println!("access control is enforced"),
        false => println!("{}", access::OPEN),
    }
    Ok(())
}

/// Says which clients still work afterwards; an error when no admin would be among them.
async fn explain(api: &Api, view: &AccessView) -> Result<(), Error> {
    let now = Clock::start().now();
    let tokens: Vec<_> = api.tokens().await?.into_iter().filter(|token| now < token.expires).collect();
    let admins = tokens.iter().filter(|token| is_admin(&token.bindings)).count();
    let anonymous_admin = view.anonymous.iter().any(|it| is_admin(std::slice::from_ref(&it.binding)));
    if admins == 0 && !anonymous_admin {
        return Err(Error::NoAdmin);
    }
    eprintln!("From now on a request needs a token; others are answered 401.");
    eprintln!("  tokens   {} valid, {admins} of them admin@*", tokens.len());
    if view.anonymous.is_empty() {
        eprintln!("  without  no client");
    }
    for binding in &view.anonymous {
        eprintln!("  without  {binding}");
    }
    Ok(())
}

/// Whether one of the bindings allows everything, everywhere.
fn is_admin(bindings: &[Binding]) -> bool {
    bindings.iter().any(|binding| binding.role == Role::Admin && binding.namespaces == Namespaces::All)
}
