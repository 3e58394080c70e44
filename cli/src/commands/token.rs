//! `token`: creates, lists and revokes tokens.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use contract::access::table::CreatedToken;
use fabric::clock::Clock;

use crate::api::{self, Api, Retry};
use crate::args::{NewToken, TokenWhat};
use crate::output::{access, list};
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
    #[error("the token {id} was created and could not be written; `{revoke} {id}` ends it")]
    Lost {
        id: String,
        revoke: &'static str,
        #[source]
        source: std::io::Error,
    },
}

/// `deployctl token`
pub async fn token(api: &Api, what: &TokenWhat) -> Result<(), Error> {
    match what {
        TokenWhat::Create(asked) => create(api, asked).await?,
        TokenWhat::List { listing } => {
            let read = async || Ok(access::tokens(&api.tokens().await?, Clock::start().now()));
            list::show(*listing, read).await?;
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
    let (CreatedToken { token, view }, is_decided) =
        only_once(asked.output.as_deref(), "deployctl token revoke", api.create_token(&wanted), |(created, _)| {
            (created.token.clone(), created.view.id.clone())
        })
        .await?;
    match asked.output.as_deref() {
        Some(path) => eprintln!("the token is in {}; `deployctl login URL --token-file {0}` uses it", path.display()),
        None => {
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

/// Creates a token and writes it to the file, if there is one. The file comes first: a token that cannot be written is lost.
pub(crate) async fn only_once<T>(
    path: Option<&Path>,
    revoke: &'static str,
    create: impl Future<Output = Result<T, api::Error>>,
    token_and_id: impl Fn(&T) -> (String, String),
) -> Result<T, Error> {
    let file = path.map(private_file::create).transpose()?;
    let created = create.await.inspect_err(|_| {
        // It is empty, and ours: it did not exist before.
        path.map(std::fs::remove_file);
    })?;
    if let Some(mut file) = file {
        let (token, id) = token_and_id(&created);
        let written = file.write_all(format!("{token}\n").as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|source| Error::Lost { id, revoke, source })?;
    }
    Ok(created)
}
