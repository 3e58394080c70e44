//! `node token`: creates, lists and revokes tokens with which nodes join.

use std::collections::BTreeMap;

use contract::access::join::{CreatedJoinToken, NewJoinToken};
use fabric::clock::Clock;

use crate::api::Api;
use crate::args::{self, JoinTokenWhat};
use crate::commands::token::only_once;
use crate::output::{access, list};

use super::{Error, retry};

/// `deployctl node token`
pub(super) async fn token(api: &Api, what: &JoinTokenWhat) -> Result<(), Error> {
    match what {
        JoinTokenWhat::Create(asked) => create(api, asked).await?,
        JoinTokenWhat::List { listing } => {
            let read = async || Ok(access::join_tokens(&api.join_tokens().await?, Clock::start().now()));
            list::show(*listing, read).await?;
        }
        JoinTokenWhat::Revoke { id } => {
            api.revoke_join_token(id, &mut retry()).await?;
            println!("the join token {id} is revoked; nodes that joined with it stay");
        }
    }
    Ok(())
}

async fn create(api: &Api, asked: &args::NewJoinToken) -> Result<(), Error> {
    let labels = asked.labels.iter().map(|(key, value)| match value {
        Some(value) => Ok((key.clone(), value.clone())),
        None => Err(Error::Label(format!("{key}-"))),
    });
    let wanted = NewJoinToken {
        names: asked.names.clone(),
        labels: labels.collect::<Result<BTreeMap<_, _>, _>>()?,
        uses: Some(asked.uses),
        valid_seconds: Some(asked.ttl.as_secs()),
        replace: asked.replace,
    };
    let path = asked.output.as_deref();
    let (CreatedJoinToken { token, view }, is_decided) =
        only_once(path, "deployctl node token revoke", api.create_join_token(&wanted), |(created, _)| {
            (created.token.clone(), created.view.id.clone())
        })
        .await?;
    match path {
        Some(path) => eprintln!("the join token is in {}", path.display()),
        None => {
            println!("{token}");
            eprintln!("this is the only time that the join token is shown");
        }
    }
    eprintln!("join token {} for {} nodes named {}, valid until {}", view.id, view.uses, view.names, view.expires);
    eprintln!(
        "on the node: deployd-agent join --api URL --token-file FILE, or deploy/install-agent --join URL --token-file FILE"
    );
    if !is_decided {
        eprintln!("no scheduler has decided it yet; the token works as soon as `deployctl node token list` shows it");
    }
    Ok(())
}
