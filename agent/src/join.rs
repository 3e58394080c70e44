//! `deployd-agent join`: makes the key of this node and gets everything that its agent needs, with a join token.
//!
//! The private key never leaves the node. The token names the CA of the API by its hash, so the node knows the API server before it sends
//! the token. A repeated command uses the same key and takes no further use of the token.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::Parser;
use contract::access::join::{JoinAnswer, JoinCa, JoinRequest, JoinToken, check_labels, signed_text};
use contract::api::Failure;
use contract::bus::{Identity, Member};
use contract::name::NodeName;
use fabric::nats::{Args, Bus, Error};
use fabric::{bus_accounts, certificates};
use reqwest::{Certificate, Client, Url};

use crate::config;

/// Deadline of one request.
const LIMIT: Duration = Duration::from_secs(20);
/// How long NATS may take to know the key of this node, and how often it is asked.
const ADMISSION: Duration = Duration::from_secs(5);
const ADMISSION_POLL: Duration = Duration::from_millis(100);
const ROUTE: &str = "/api/join";
const KEY: &str = "agent.nk";
const CA: &str = "ca.pem";
const ORDER_KEYS: &str = "order-keys";
const SETTINGS: &str = "agent.env";
/// The settings that a join writes, or removes if the new answer does not have them.
const OWNED: [&str; 6] = [
    "DEPLOYD_NAME",
    "DEPLOYD_NATS",
    "DEPLOYD_NATS_CREDENTIALS_FILE",
    "DEPLOYD_NATS_CA",
    "DEPLOYD_ORDER_KEYS_FILE",
    "DEPLOYD_LABELS",
];

/// Makes the key of this node, joins the cluster with a token, and writes the settings of the agent.
#[derive(Debug, Parser)]
#[command(
    name = "deployd-agent join",
    version,
    after_help = "\
It writes agent.nk (the key of this node, which never leaves it), ca.pem, order-keys and agent.env to the folder. agent.env is the
environment of the agent. The same command again changes nothing and takes no further use of the token.

Example:
  deployd-agent join --api https://10.0.0.1:9003 --token-file join.token --into /etc/deployd/join"
)]
pub struct Join {
    /// URL of an apiserver; http:// only on this machine
    #[arg(long, env = "DEPLOYD_API", value_name = "URL")]
    api: Url,
    /// File with the join token (deployctl node token create)
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Name of this node; default: the host name
    #[arg(long, env = "DEPLOYD_NAME", value_name = "NAME")]
    name: Option<NodeName>,
    /// Label that placement constraints match, as KEY=VALUE; may be given several times. Labels of the token win
    #[arg(long = "label", value_delimiter = ',', value_parser = config::label, value_name = "KEY=VALUE")]
    labels: Vec<(String, String)>,
    /// Folder for the files
    #[arg(long, value_name = "DIR", default_value = "/etc/deployd/join")]
    into: PathBuf,
}

/// The key of this node.
struct NodeKey {
    seed: String,
    public: String,
}

/// Runs the command with the arguments after `join`.
pub async fn run(arguments: impl Iterator<Item = std::ffi::OsString>) -> anyhow::Result<()> {
    let join = Join::parse_from(std::iter::once("deployd-agent join".into()).chain(arguments));
    let node = config::node_name(join.name.as_ref()).map_err(anyhow::Error::msg)?;
    let text = fs::read_to_string(&join.token_file)
        .with_context(|| format!("cannot read the join token from {}", join.token_file.display()))?;
    let token = JoinToken::parse(text.trim())
        .ok_or_else(|| anyhow!("{} holds no join token (ddj_...)", join.token_file.display()))?;
    let labels: BTreeMap<String, String> = join.labels.iter().cloned().collect();
    check_labels(&labels).map_err(anyhow::Error::msg)?;
    let folder = std::path::absolute(&join.into)?;
    let client = client(&join.api, &token).await?;
    let key = key(&folder, &node)?;
    let signature = bus_accounts::sign(&key.seed, &signed_text(token.id(), &node, &key.public));
    let request = JoinRequest {
        token: token.reveal(),
        name: node.clone(),
        labels,
        key: key.public,
        signature: signature.context("the key of this node cannot sign")?,
    };
    let answer = ask(&client, &join.api, &request).await?;
    write(&folder, &node, &answer)?;
    println!("{node} joined; its agent needs the settings of {}", folder.join(SETTINGS).display());
    let problem = match tokio::time::timeout(ADMISSION, admission(&folder, &answer)).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {ADMISSION:?} that knows its key"),
    };
    eprintln!("NATS does not let {node} in yet: {problem}; its agent tries again by itself");
    Ok(())
}

/// Waits until every NATS server knows the key of this node. Schedulers write it into their configuration within a second; an agent that
/// starts earlier is refused and ends.
async fn admission(folder: &Path, answer: &JoinAnswer) -> Result<(), Error> {
    let ca = answer.ca.is_some().then(|| folder.join(CA));
    for url in &answer.nats {
        let args = Args { credentials_file: Some(folder.join(KEY)), ca: ca.clone(), ..Args::at(url) };
        while let Err(error) = Bus::connect(&args, "join").await {
            let Error::Refused { .. } = error else { return Err(error) };
            tokio::time::sleep(ADMISSION_POLL).await;
        }
    }
    Ok(())
}

/// A client that trusts the CA of the token only; without one in the token, the CAs of this machine.
async fn client(api: &Url, token: &JoinToken) -> anyhow::Result<Client> {
    if api.scheme() != "https" {
        let host = api.host_str().unwrap_or_default();
        if api.scheme() != "http" || !fabric::tls::is_loopback(host) {
            bail!("--api {api}: the join token would travel unencrypted; use the https:// URL of an apiserver");
        }
        if token.ca().is_some() {
            bail!("--api {api}: the token names the CA of the API, so the URL must begin with https://");
        }
        return Ok(fabric::http::client_with(LIMIT, reqwest::ClientBuilder::no_proxy));
    }
    let Some(hash) = token.ca() else { return Ok(fabric::http::client(LIMIT)) };
    // Only the CA is read over this connection, and its hash must be that of the token.
    let unchecked = fabric::http::client_with(LIMIT, |builder| builder.tls_danger_accept_invalid_certs(true));
    let url = api.join(ROUTE)?;
    let answer = unchecked.get(url).send().await.with_context(|| format!("cannot reach {api}"))?;
    let JoinCa { ca } = answer.json().await.with_context(|| format!("{api} does not name its CA"))?;
    let found = ca.and_then(|pem| certificates::with_hash(&pem, hash)).ok_or_else(|| {
        anyhow!("{api} does not have the CA of the join token: it is another cluster's, or not the server that it claims to be")
    })?;
    let trusted = Certificate::from_der(&found).context("the CA cannot be used")?;
    Ok(fabric::http::client_with(LIMIT, |builder| builder.tls_certs_only([trusted.clone()])))
}

async fn ask(client: &Client, api: &Url, request: &JoinRequest) -> anyhow::Result<JoinAnswer> {
    let sent = client.post(api.join(ROUTE)?).json(request).send().await;
    let answer =
        sent.with_context(|| format!("cannot reach {api}, or its certificate is not signed by the CA of the token"))?;
    let status = answer.status();
    if !status.is_success() {
        let text = answer.text().await.unwrap_or_default();
        let message = serde_json::from_str::<Failure>(&text).map_or(text, |failure| failure.message);
        bail!("{api} answered {status}: {}", message.trim());
    }
    let answer: JoinAnswer = answer.json().await.context("the answer cannot be read")?;
    check_labels(&answer.node.labels).map_err(anyhow::Error::msg)?;
    let is_plain = |url: &String| url.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'\\$`,".contains(&byte));
    if answer.nats.is_empty() || !answer.nats.iter().all(is_plain) {
        bail!("{api} names no usable NATS server: {:?}", answer.nats);
    }
    Ok(answer)
}

/// The key of this node: that of an earlier try, or a new one.
fn key(folder: &Path, node: &NodeName) -> anyhow::Result<NodeKey> {
    let user = Identity { member: Member::Agent, name: node.clone() }.user();
    let path = folder.join(KEY);
    let unusable = || format!("{} is not a key of {node}; remove it to get a new one", path.display());
    match fs::read_to_string(&path) {
        Ok(text) => {
            let seed = text.trim().strip_prefix(&format!("{user}:")).with_context(unusable)?.to_owned();
            let public = bus_accounts::public_key(&seed).with_context(unusable)?;
            Ok(NodeKey { seed, public })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.with_context(|| format!("cannot create {}", folder.display()))?;
            let (seed, public) = bus_accounts::generate_key();
            put(&path, &format!("{user}:{seed}\n"), 0o600)?;
            Ok(NodeKey { seed, public })
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn write(folder: &Path, node: &NodeName, answer: &JoinAnswer) -> anyhow::Result<()> {
    let at = |name: &str| folder.join(name).display().to_string();
    let [name, nats, credentials, nats_ca, order_keys, labels_of_node] = OWNED;
    let mut settings = vec![(name, node.to_string()), (nats, answer.nats.join(",")), (credentials, at(KEY))];
    if let Some(ca) = &answer.ca {
        put(&folder.join(CA), ca, 0o644)?;
        settings.push((nats_ca, at(CA)));
    }
    if !answer.node.order_keys.is_empty() {
        put(&folder.join(ORDER_KEYS), &answer.node.order_keys, 0o644)?;
        settings.push((order_keys, at(ORDER_KEYS)));
    }
    let labels: Vec<String> = answer.node.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if !labels.is_empty() {
        settings.push((labels_of_node, labels.join(",")));
    }
    let path = folder.join(SETTINGS);
    let before = fs::read_to_string(&path).unwrap_or_default();
    put(&path, &merged(&before, &settings), 0o600)
}

/// The settings in place of all that an earlier join wrote; other lines stay.
fn merged(before: &str, settings: &[(&str, String)]) -> String {
    let is_ours = |line: &&str| line.split('=').next().is_some_and(|name| OWNED.contains(&name.trim()));
    let kept = before.lines().filter(|line| !is_ours(line)).map(str::to_owned);
    let set = settings.iter().map(|(name, value)| format!("{name}={value}"));
    kept.chain(set).map(|line| line + "\n").collect()
}

/// Writes a file by rename: a crash leaves the old file or the new one.
fn put(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let written =
        OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, path)
        });
    written.with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use contract::access::join::JoinedNode;

    use super::*;

    fn node() -> NodeName {
        "rack-3-1.a".parse().unwrap()
    }

    #[test]
    fn a_key_is_kept_and_only_its_owner_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("join");
        let first = key(&folder, &node()).unwrap();
        assert_eq!(key(&folder, &node()).unwrap().public, first.public);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join(KEY))), (0o700, 0o600));
        assert!(key(&folder, &"other".parse().unwrap()).is_err(), "the key of another name");
    }

    #[test]
    fn the_settings_name_the_files_and_keep_other_lines() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        fs::write(folder.join(SETTINGS), "DEPLOYD_MEMORY=1\nDEPLOYD_NATS=nats://old:4222\n").unwrap();
        let labels = BTreeMap::from([("unit".to_owned(), "a".to_owned()), ("disk".to_owned(), "ssd".to_owned())]);
        let answer = JoinAnswer {
            nats: vec!["nats://10.0.0.1:4222".to_owned(), "nats://10.0.0.2:4222".to_owned()],
            ca: Some("PEM".to_owned()),
            node: JoinedNode { labels, order_keys: "s1 AAAA\n".to_owned(), stores: Vec::new() },
        };
        for _ in 0..2 {
            write(folder, &node(), &answer).unwrap();
        }
        let at = |name: &str| folder.join(name).display().to_string();
        let expected = format!(
            "DEPLOYD_MEMORY=1\nDEPLOYD_NAME=rack-3-1.a\nDEPLOYD_NATS=nats://10.0.0.1:4222,nats://10.0.0.2:4222\n\
             DEPLOYD_NATS_CREDENTIALS_FILE={}\nDEPLOYD_NATS_CA={}\nDEPLOYD_ORDER_KEYS_FILE={}\nDEPLOYD_LABELS=disk=ssd,unit=a\n",
            at(KEY),
            at(CA),
            at(ORDER_KEYS)
        );
        assert_eq!(fs::read_to_string(folder.join(SETTINGS)).unwrap(), expected);
    }

    #[test]
    fn a_second_join_leaves_no_setting_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let labels = BTreeMap::from([("unit".to_owned(), "a".to_owned())]);
        let full = JoinAnswer {
            nats: vec!["nats://10.0.0.1:4222".to_owned()],
            ca: Some("PEM".to_owned()),
            node: JoinedNode { labels, order_keys: "s1 AAAA\n".to_owned(), stores: Vec::new() },
        };
        write(dir.path(), &node(), &full).unwrap();
        let bare = JoinAnswer {
            nats: full.nats,
            ca: None,
            node: JoinedNode { labels: BTreeMap::new(), order_keys: String::new(), stores: Vec::new() },
        };
        write(dir.path(), &node(), &bare).unwrap();
        let expected = format!(
            "DEPLOYD_NAME=rack-3-1.a\nDEPLOYD_NATS=nats://10.0.0.1:4222\nDEPLOYD_NATS_CREDENTIALS_FILE={}\n",
            dir.path().join(KEY).display()
        );
        assert_eq!(fs::read_to_string(dir.path().join(SETTINGS)).unwrap(), expected);
    }

    #[tokio::test]
    async fn a_token_is_sent_over_https_or_to_this_machine_only() {
        let token = JoinToken::parse(&format!("ddj_{}_{}_-", "0".repeat(16), "0".repeat(64))).unwrap();
        let refused = client(&"http://10.0.0.1:9003".parse().unwrap(), &token).await.unwrap_err();
        assert!(refused.to_string().contains("unencrypted"), "{refused}");
        assert!(client(&"http://127.0.0.1:9003".parse().unwrap(), &token).await.is_ok());
    }
}
