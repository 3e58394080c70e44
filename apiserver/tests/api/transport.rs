//! TLS of the API: certificates, clients that trust them or do not, plain HTTP, renewal.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fabric::certificates::Authority;
use reqwest::{Certificate, Client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::{World, eventually};

const SOON: Duration = Duration::from_secs(10);

fn authority() -> Authority {
    Authority::create(SystemTime::now()).unwrap().0
}

/// Certificate and key of a server with these names, in `dir`.
fn certify(authority: &Authority, dir: &Path, hosts: &[&str]) -> (PathBuf, PathBuf) {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let issued = authority.issue("api", &hosts, 1, SystemTime::now()).unwrap();
    let (certificate, key) = (dir.join("api.pem"), dir.join("api-key.pem"));
    std::fs::write(&certificate, issued.certificate).unwrap();
    std::fs::write(&key, issued.key).unwrap();
    (certificate, key)
}

struct Tls {
    world: World,
    authority: Authority,
    files: tempfile::TempDir,
}

impl Tls {
    async fn start(hosts: &[&str]) -> Self {
        let (authority, files) = (authority(), tempfile::tempdir().unwrap());
        let (certificate, key) = certify(&authority, files.path(), hosts);
        let flags = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
        Self { world: World::start_with(&flags).await, authority, files }
    }

    fn address(&self) -> &str {
        self.world.base.trim_start_matches("http://")
    }

    /// The status of a request over TLS by a client that trusts `authority`, or why there is none.
    async fn ask(&self, authority: &Authority) -> Result<u16, String> {
        let trusted = Certificate::from_pem(authority.certificate().as_bytes()).unwrap();
        let client = Client::builder().tls_certs_only([trusted]).timeout(SOON).build().unwrap();
        let answer = client.get(format!("https://{}/readyz", self.address())).send().await;
        answer
            .map(|answer| answer.status().as_u16())
            .map_err(|error| fabric::tls::problem(&error).unwrap_or_else(|| format!("{error:?}")))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_trusts_the_ca_is_served_and_no_other() {
    let tls = Tls::start(&["127.0.0.1"]).await;
    assert_eq!(tls.ask(&tls.authority).await, Ok(200));
    let error = tls.ask(&authority()).await.unwrap_err();
    assert!(error.contains("not signed by a CA that we trust"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_another_name_is_refused_by_clients() {
    let tls = Tls::start(&["deployd.example"]).await;
    let error = tls.ask(&tls.authority).await.unwrap_err();
    assert!(error.contains("belongs to another name") && error.contains("deployd.example"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_http_to_the_tls_port_is_answered_with_the_remedy() {
    let tls = Tls::start(&["127.0.0.1"]).await;
    let answer = Client::new().get(format!("{}/api/nodes", tls.world.base)).timeout(SOON).send().await.unwrap();
    assert_eq!(answer.status(), 400);
    let text = answer.text().await.unwrap();
    assert!(text.contains("https://"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_is_named_may_speak_plain_http_to_the_tls_port() {
    let (authority, files) = (authority(), tempfile::tempdir().unwrap());
    let (certificate, key) = certify(&authority, files.path(), &["127.0.0.1"]);
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let flags = ["--tls-cert", certificate, "--tls-key", key, "--behind-proxy", "127.0.0.9"];
    let world = World::start_with(&flags).await;
    let proxy = Client::builder().local_address(std::net::IpAddr::from([127, 0, 0, 9])).timeout(SOON).build().unwrap();
    assert_eq!(proxy.get(world.at("/readyz")).send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_certificate_is_used_without_a_restart() {
    let tls = Tls::start(&["127.0.0.1"]).await;
    let next = authority();
    // Half of a renewal: the key of the earlier certificate does not fit, so that one stays.
    let key = std::fs::read(tls.files.path().join("api-key.pem")).unwrap();
    certify(&next, tls.files.path(), &["127.0.0.1"]);
    let renewed_key = std::fs::read(tls.files.path().join("api-key.pem")).unwrap();
    std::fs::write(tls.files.path().join("api-key.pem"), key).unwrap();
    assert_eq!(tls.ask(&tls.authority).await, Ok(200));
    std::fs::write(tls.files.path().join("api-key.pem"), renewed_key).unwrap();
    eventually("the renewed certificate is in use", async || tls.ask(&next).await.ok()).await;
    assert!(tls.ask(&tls.authority).await.is_err(), "the earlier CA signs nothing any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_that_stops_is_ended_after_five_seconds() {
    let tls = Tls::start(&["127.0.0.1"]).await;
    let mut silent = TcpStream::connect(tls.address()).await.unwrap();
    let mut halting = TcpStream::connect(tls.address()).await.unwrap();
    halting.write_all(&[0x16, 3, 1, 2, 0, 1]).await.unwrap();
    for stream in [&mut silent, &mut halting] {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "still open after {SOON:?}");
    }
}
