//! `token`: creates, lists and revokes tokens.

use std::io::Write as _;
use std::time::Duration;

use contract::access::table::CreatedToken;
use fabric::clock::Clock;

use crate::api::{self, Api, Retry};
use crate::args::{NewToken, TokenWhat};
use crate::output::{access, show};
use crate::private_file;

const RETRY_FOR: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Api(#[from] api::Error),
    #[error(transparent)]
    File(#[from] private_file::Error),
    #[error("{0}")]
    Binding(String),
    #[error("the token {id} was created and could not be written; `deployctl token revoke {id}` ends it")]
    Lost {
        id: String,
        #[source]
        source: std::io::Error,
    },
}

/// `deployctl token`
pub async fn token(api: &Api, what: &TokenWhat) -> Result<(), Error> {
    match what {
        TokenWhat::Create(asked) => create(api, asked).await?,
        TokenWhat::List { output } => {
            let tokens = api.tokens().await?;
            let text = || match tokens.is_empty() {
                true => "no tokens; `deployctl token create PRINCIPAL --role ROLE` makes one".to_owned(),
                false => access::tokens(&tokens, Clock::start().now()),
            };
            show(*output, &tokens, text);
        }
        TokenWhat::Revoke { id } => {
            api.revoke_token(id, &mut Retry::for_span(RETRY_FOR, |_| {})).await?;
            println!("the token {id} is revoked");
        }
    }
    Ok(())
}

async fn create(api: &Api, asked: &NewToken) -> Result<(), Error> {
    let bindings = asked.bindings().map_err(Error::Binding)?;
    let valid_seconds = Some(asked.ttl.as_secs());
    let wanted = contract::access::table::NewToken { principal: asked.principal.clone(), bindings, valid_seconds };
    // The file comes first: a token that cannot be written is lost.
    let file = asked.output.as_deref().map(private_file::create).transpose()?;
    let created = api.create_token(&wanted).await;
    let (CreatedToken { token, view }, is_decided) = match (created, asked.output.as_deref()) {
        (Ok(created), _) => created,
        (Err(error), path) => {
            // It is empty, and ours: it did not exist before.
            path.map(std::fs::remove_file);
            return Err(error.into());
        }
    };
    match (file, asked.output.as_deref()) {
        (Some(mut file), Some(path)) => {
            let written = file.write_all(format!("{token}\n").as_bytes()).and_then(|()| file.sync_all());
            written.map_err(|source| Error::Lost { id: view.id.clone(), source })?;
            eprintln!("the token is in {}; `deployctl login URL --token-file {0}` uses it", path.display());
        }
        _ => {
            println!("{token}");
            eprintln!("this is the only time that the token is shown; `deployctl login URL` stores it");
        }
    }
    let who = access::principal(&view.principal, &view.bindings);
    eprintln!("token {} of {who}, valid until {}", view.id, view.expires);
    if !is_decided {
        eprintln!("no scheduler has decided it yet; the token works as soon as `deployctl token list` shows it");
    }
    Ok(())
}
