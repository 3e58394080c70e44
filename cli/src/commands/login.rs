//! `login`, `logout` and `context`: which clusters the user knows, and the tokens for them.

use std::io::{self, IsTerminal as _, Read as _};

use contract::access::table::AccessView;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::api::{self, Api, Target};
use crate::args::{ContextWhat, Endpoint, Login, Logout};
use crate::contexts::{self, Context, Contexts};
use crate::credential::{self, Credential, Given};
use crate::output::{access, show, terminal};
use crate::{endpoint, private_file};

/// A token has 85 characters; more is not one.
const LONGEST_INPUT: u64 = 4096;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Api(#[from] api::Error),
    #[error(transparent)]
    Credential(#[from] credential::Error),
    #[error(transparent)]
    Contexts(#[from] contexts::Error),
    #[error(transparent)]
    Endpoint(#[from] endpoint::Error),
    #[error(transparent)]
    File(#[from] private_file::Error),
    #[error("cannot read the token from the input")]
    Input(#[source] io::Error),
    #[error("no token was given, and nothing was stored")]
    Interrupted,
}

/// `deployctl login`
pub async fn login(endpoint: &Endpoint, asked: &Login) -> Result<(), Error> {
    let urls = api::urls(&asked.urls)?;
    let authorities = endpoint.ca.as_deref().map(api::authorities).transpose()?;
    let credential = match Credential::named(endpoint.token_file.as_deref())? {
        Some(credential) => credential,
        None => Credential::parse(Given::Input, &typed().await?)?,
    };
    let name = asked.name.clone().unwrap_or_else(|| contexts::name_of(&urls[0]));
    let context = Context { name: name.clone(), urls: urls.clone(), token: credential.token.clone(), ca: authorities };
    // A name that cannot be stored is an error before the token leaves.
    let mut contexts = Contexts::load()?;
    contexts.put(context.clone())?;
    let api = Api::at(Target { credential: Some(credential), authorities: context.ca.clone(), ..Target::new(urls) })?;
    let view = api.access().await?;
    let file = contexts.store()?;
    println!("logged in to {} as {}", context.urls(), access::principal(&view.principal, &view.bindings));
    println!("the context {name} is in use; it is stored in {}", file.display());
    warn_if_open(&view);
    Ok(())
}

fn warn_if_open(view: &AccessView) {
    if !view.enforced {
        eprintln!("{}", access::OPEN);
    }
}

/// The token from the standard input; a terminal does not show what is typed.
async fn typed() -> Result<String, Error> {
    if !io::stdin().is_terminal() {
        let mut text = String::new();
        io::stdin().take(LONGEST_INPUT).read_to_string(&mut text).map_err(Error::Input)?;
        return Ok(text);
    }
    let _silent = Silent::start().map_err(Error::Input)?;
    terminal::prompt("token: ");
    let (give, line) = oneshot::channel();
    // Not on the runtime: it would wait for this read when Ctrl-C ends the command.
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = io::stdin().read_line(&mut text).map(|_| text);
        drop(give.send(read));
    });
    let read = tokio::select! {
        line = line => line.map_err(|_| Error::Interrupted)?.map_err(Error::Input),
        _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
    };
    // The line break that the terminal did not show.
    eprintln!("");
    read
}

/// While it lives, the terminal does not show what is typed.
struct Silent(rustix::termios::Termios);

impl Silent {
    fn start() -> io::Result<Self> {
        let before = rustix::termios::tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(rustix::termios::LocalModes::ECHO);
        rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, &silent)?;
        Ok(Self(before))
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // The terminal may be gone by now.
        let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, &self.0);
    }
}

/// `deployctl logout`
pub fn logout(asked: &Logout) -> Result<(), Error> {
    let mut contexts = Contexts::load()?;
    let token = asked.name.as_deref().or(contexts.current.as_deref()).and_then(|name| contexts.find(name));
    let token = token.map(|context| context.token.id.clone()).unwrap_or_default();
    let name = contexts.remove(asked.name.as_deref())?;
    contexts.store()?;
    println!("removed the context {name} and its token; `deployctl token revoke {token}` ends the token itself");
    Ok(())
}

/// A context without its token.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "InUse")]
    is_in_use: bool,
    #[serde(rename = "Urls")]
    urls: String,
    #[serde(rename = "TokenId")]
    token: String,
}

/// What the next command uses.
#[derive(Debug, Serialize)]
struct Used {
    #[serde(rename = "Urls")]
    urls: Vec<String>,
    #[serde(rename = "Found")]
    found: String,
    #[serde(rename = "TokenId", skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(rename = "TokenFrom", skip_serializing_if = "Option::is_none")]
    token_from: Option<String>,
}

/// `deployctl context`
pub fn context(endpoint: &Endpoint, what: &ContextWhat) -> Result<(), Error> {
    match what {
        ContextWhat::List { output } => {
            let contexts = Contexts::load()?;
            let rows: Vec<Row> = contexts.contexts.iter().map(|context| row(context, &contexts)).collect();
            show(*output, &rows, || table(&rows));
        }
        ContextWhat::Use { name } => {
            let mut contexts = Contexts::load()?;
            contexts.choose(name)?;
            contexts.store()?;
            match contexts.current()? {
                Some(context) => println!("the context {name} is in use: {}", context.urls()),
                None => println!("no context is in use; commands go to the local cluster"),
            }
        }
        ContextWhat::Show { output } => {
            let target = endpoint::target(endpoint)?;
            let used = used(&target);
            show(*output, &used, || {
                let token = match (&used.token, &used.token_from) {
                    (Some(id), Some(from)) => format!("the token {id} of {from}"),
                    _ => "no token".to_owned(),
                };
                format!("{}\n{token}", target.describe())
            });
        }
    }
    Ok(())
}

fn row(context: &Context, contexts: &Contexts) -> Row {
    Row {
        name: context.name.clone(),
        is_in_use: contexts.current.as_ref() == Some(&context.name),
        urls: context.urls(),
        token: context.token.id.clone(),
    }
}

fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no contexts; `deployctl login URL` adds one".to_owned();
    }
    let cells = |row: &Row| {
        let mark = if row.is_in_use { "*" } else { "" };
        [mark.to_owned(), row.name.clone(), row.urls.clone(), row.token.clone()]
    };
    access::rows(&["", "context", "api", "token"], rows.iter().map(cells))
}

fn used(target: &Target) -> Used {
    let found = if target.found.is_empty() { "--api" } else { &target.found };
    let credential = target.credential.as_ref();
    Used {
        urls: target.urls.iter().map(|url| url.as_str().trim_end_matches('/').to_owned()).collect(),
        found: found.to_owned(),
        token: credential.map(|credential| credential.token.id.clone()),
        token_from: credential.map(|credential| credential.given.to_string()),
    }
}
