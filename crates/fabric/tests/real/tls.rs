//! NATS and etcd with TLS: which processes are let in, and what an operator reads when a file is wrong.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use contract::keys;
use etcd_client::{Permission, PermissionType};
use fabric::certificates::{Authority, Issued};
use fabric::election::{Election, ElectionRole, Settings};
use fabric::etcd::{self, Change, CommitResult, Op, Store};
use fabric::local::{EtcdServer, NatsServer, Syncing, free_port, open_accounts};
use fabric::nats::{self, Bus};
use fabric::shutdown::Shutdown;
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use crate::servers::within;

/// Less than the 30 s for which a starting process waits for a server: a wrong file is reported at once.
const SOON: Duration = Duration::from_secs(10);
const HOST: &str = "127.0.0.1";

/// A CA with the certificates of a server and of a client, in files.
struct Files {
    dir: TempDir,
    authority: Authority,
}

impl Files {
    fn new(host: &str) -> Self {
        let files = Self { dir: tempfile::tempdir().unwrap(), authority: authority() };
        files.write(host, "deployd");
        files
    }

    fn write(&self, host: &str, client: &str) {
        let issue = |name: &str, hosts: &[String]| self.authority.issue(name, hosts, 1, SystemTime::now()).unwrap();
        std::fs::write(self.path("ca.pem"), self.authority.certificate()).unwrap();
        self.store("server", &issue("server", &[host.to_owned()]));
        self.store("client", &issue(client, &[]));
    }

    fn store(&self, name: &str, issued: &Issued) {
        std::fs::write(self.path(&format!("{name}.pem")), &issued.certificate).unwrap();
        std::fs::write(self.path(&format!("{name}-key.pem")), &issued.key).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Replaces everything by another CA and its certificates.
    fn renew(&mut self) {
        self.authority = authority();
        self.write(HOST, "deployd");
    }
}

fn authority() -> Authority {
    Authority::create(SystemTime::now()).unwrap().0
}

async fn nats_server(files: &Files, dir: &Path) -> NatsServer {
    let tls = format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true }}\n",
        files.text("server.pem"),
        files.text("server-key.pem"),
        files.text("ca.pem")
    );
    let config = format!("{}{tls}", open_accounts());
    NatsServer::start_configured(dir, 0, Syncing::Always, &config).await.unwrap()
}

fn nats_args(server: &NatsServer, files: &Files) -> nats::Args {
    nats::Args {
        ca: Some(files.path("ca.pem")),
        cert: Some(files.path("client.pem")),
        key: Some(files.path("client-key.pem")),
        ..nats::Args::at(server.url())
    }
}

/// Why connecting failed, with all causes.
async fn refused(args: &nats::Args) -> String {
    let error = timeout(SOON, Bus::connect(args, "test")).await.expect("reported at once").unwrap_err();
    error.to_string()
}

#[tokio::test]
async fn nats_lets_in_a_process_with_a_certificate_of_the_ca_and_follows_renewed_files() {
    let (mut files, dir) = (Files::new(HOST), tempfile::tempdir().unwrap());
    let mut server = nats_server(&files, dir.path()).await;
    let bus = Bus::connect(&nats_args(&server, &files), "test").await.unwrap();
    let mut heard = bus.subscribe("a").await.unwrap();
    bus.publish("a", &1).await.unwrap();
    assert_eq!(heard.next().await.unwrap().decode::<u32>().unwrap(), 1);

    files.renew();
    server.restart().await.unwrap();
    let started = Instant::now();
    // The subscription is restored by the new connection, which has read the renewed files.
    loop {
        bus.publish("a", &2).await.ok();
        if let Ok(Some(message)) = timeout(Duration::from_millis(200), heard.next()).await {
            assert_eq!(message.decode::<u32>().unwrap(), 2);
            return;
        }
        assert!(started.elapsed() < SOON, "no connection with the renewed files");
    }
}

#[tokio::test]
async fn a_wrong_file_for_nats_is_reported_in_a_sentence() {
    let (files, other, dir) = (Files::new(HOST), Files::new(HOST), tempfile::tempdir().unwrap());
    let server = nats_server(&files, dir.path()).await;
    let good = nats_args(&server, &files);
    let stranger = nats::Args { ca: Some(other.path("ca.pem")), ..good.clone() };
    let text = refused(&stranger).await;
    assert!(
        text.contains("its certificate is not signed by a CA that we trust") && text.contains("--nats-ca"),
        "{text}"
    );
    let anonymous = nats::Args { cert: None, key: None, ..good.clone() };
    let text = refused(&anonymous).await;
    assert!(text.contains("requires a client certificate") && text.contains("--nats-cert"), "{text}");
    let foreign = nats::Args { cert: Some(other.path("client.pem")), key: Some(other.path("client-key.pem")), ..good };
    let text = refused(&foreign).await;
    assert!(text.contains("our client certificate") || text.contains("does not accept ours"), "{text}");
}

#[tokio::test]
async fn a_nats_server_of_another_name_is_refused() {
    let (files, dir) = (Files::new("nats.example"), tempfile::tempdir().unwrap());
    let server = nats_server(&files, dir.path()).await;
    let text = refused(&nats_args(&server, &files)).await;
    assert!(text.contains("belongs to another name") && text.contains("nats.example"), "{text}");
}

#[test]
fn a_bus_on_another_machine_is_reached_only_encrypted_unless_an_operator_allows_more() {
    let text = nats::Args::at("nats://10.0.0.1:4222").check().unwrap_err();
    assert!(text.contains("--nats-ca") && text.contains("--insecure-bus"), "{text}");
    assert!(nats::Args::at("nats://nats:4222").check().is_err());
    assert_eq!(nats::Args::at("nats://127.0.0.1:4222").check(), Ok(()));
    assert_eq!(nats::Args::at("tls://10.0.0.1:4222").check(), Ok(()));
    let far = || nats::Args::at("nats://10.0.0.1:4222");
    assert_eq!(nats::Args { ca: Some("ca.pem".into()), ..far() }.check(), Ok(()));
    assert_eq!(nats::Args { insecure: true, ..far() }.check(), Ok(()));
}

/// An etcd with TLS and client certificates, and a plain port of its own for the test's administration.
struct SecureEtcd {
    server: EtcdServer,
    port: u16,
    _dir: TempDir,
}

impl SecureEtcd {
    async fn start(files: &Files) -> Self {
        let (dir, port, plain) = (tempfile::tempdir().unwrap(), free_port(), free_port());
        let flags = [
            format!("--listen-client-urls=http://{HOST}:{plain},https://{HOST}:{port}"),
            format!("--advertise-client-urls=https://{HOST}:{port}"),
            format!("--cert-file={}", files.text("server.pem")),
            format!("--key-file={}", files.text("server-key.pem")),
            format!("--trusted-ca-file={}", files.text("ca.pem")),
            "--client-cert-auth=true".to_owned(),
        ];
        let server = EtcdServer::start_with(dir.path(), plain, &flags).await.unwrap();
        Self { server, port, _dir: dir }
    }

    fn args(&self, files: &Files) -> etcd::Args {
        etcd::Args {
            ca: Some(files.path("ca.pem")),
            cert: Some(files.path("client.pem")),
            key: Some(files.path("client-key.pem")),
            ..etcd::Args::at(format!("https://{HOST}:{}", self.port))
        }
    }

    /// Authentication with the user `user`, who may use our prefix only.
    async fn authenticate(&self, user: &str, password: &str) {
        let mut admin = etcd_client::Client::connect([self.server.url()], None).await.unwrap();
        admin.role_add("deployd").await.unwrap();
        let permission = Permission::new(PermissionType::Readwrite, keys::ROOT).with_prefix();
        admin.role_grant_permission("deployd", permission).await.unwrap();
        for (name, secret, role) in [("root", "secret", "root"), (user, password, "deployd")] {
            admin.user_add(name, secret, None).await.unwrap();
            admin.user_grant_role(name, role).await.unwrap();
        }
        admin.auth_enable().await.unwrap();
    }
}

async fn store_refused(args: &etcd::Args) -> String {
    let connecting = timeout(SOON, Store::connect(args)).await.expect("reported at once");
    connecting.unwrap_err().to_string()
}

fn put(key: &str) -> Op {
    Op::Put { key: key.to_owned(), value: b"x".to_vec(), lease: None }
}

#[tokio::test]
async fn a_wrong_file_for_etcd_is_reported_in_a_sentence() {
    let (files, other) = (Files::new(HOST), Files::new(HOST));
    let etcd = SecureEtcd::start(&files).await;
    let good = etcd.args(&files);
    let store = Store::connect(&good).await.unwrap();
    assert_eq!(store.commit(None, &[put(keys::CURSOR)]).await.unwrap(), CommitResult::Stored);
    let stranger = etcd::Args { ca: Some(other.path("ca.pem")), ..good.clone() };
    let text = store_refused(&stranger).await;
    assert!(
        text.contains("its certificate is not signed by a CA that we trust") && text.contains("--etcd-ca"),
        "{text}"
    );
    let anonymous = etcd::Args { cert: None, key: None, ..good.clone() };
    let text = store_refused(&anonymous).await;
    assert!(text.contains("requires a client certificate") && text.contains("--etcd-cert"), "{text}");
    let unreadable = etcd::Args { ca: Some("/no/such/ca.pem".into()), ..good };
    let text = store_refused(&unreadable).await;
    assert!(text.contains("/no/such/ca.pem"), "{text}");
}

#[tokio::test]
async fn an_etcd_user_limited_to_our_prefix_can_do_what_a_scheduler_does() {
    let files = Files::new(HOST);
    files.write(HOST, "unknown-in-etcd");
    let mut etcd = SecureEtcd::start(&files).await;
    etcd.authenticate("deployd", "good password").await;
    let password = files.path("password");
    std::fs::write(&password, "good password\n").unwrap();
    let args =
        etcd::Args { user: Some("deployd".to_owned()), password_file: Some(password.clone()), ..etcd.args(&files) };
    let store = Store::connect(&args).await.unwrap();
    works(&store).await;
    assert!(store.commit(None, &[put("/other/a")]).await.unwrap_err().is_denied(), "outside of the prefix");
    assert!(store.get("/other/a").await.unwrap_err().is_denied());

    // A restarted etcd has forgotten who logged in.
    etcd.server.restart().await.unwrap();
    works(&store).await;

    std::fs::write(&password, "wrong").unwrap();
    let text = store_refused(&args).await;
    assert!(text.contains("refused our credentials") && text.contains("--etcd-password-file"), "{text}");
}

#[tokio::test]
async fn etcd_takes_the_name_in_the_client_certificate_for_the_user() {
    let files = Files::new(HOST);
    let etcd = SecureEtcd::start(&files).await;
    etcd.authenticate("deployd", "unused").await;
    let store = Store::connect(&etcd.args(&files)).await.unwrap();
    works(&store).await;
    assert!(store.get("/other/a").await.unwrap_err().is_denied());
}

#[tokio::test]
async fn a_store_follows_renewed_files_without_a_restart() {
    let mut files = Files::new(HOST);
    let mut etcd = SecureEtcd::start(&files).await;
    let store = Store::connect(&etcd.args(&files)).await.unwrap();
    works(&store).await;
    files.renew();
    etcd.server.restart().await.unwrap();
    let started = Instant::now();
    while store.get(keys::CURSOR).await.is_err() {
        assert!(started.elapsed() < SOON, "no connection with the renewed files");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Reads, writes, leases, watches and an election.
async fn works(store: &Store) {
    assert_eq!(store.commit(None, &[put(keys::CURSOR)]).await.unwrap(), CommitResult::Stored);
    assert_eq!(store.get(keys::CURSOR).await.unwrap().as_deref(), Some(&b"x"[..]));
    assert!(!store.list(keys::ROOT).await.unwrap().pairs.is_empty());
    let lease = store.grant_lease(Duration::from_secs(5)).await.unwrap();
    store.revoke_lease(lease).await.unwrap();
    store.size().await.unwrap();
    let mut changes = store.watch(keys::ROOT);
    assert!(matches!(timeout(SOON, changes.recv()).await.unwrap(), Some(Change::Reset(_))));
    let shutdown = Shutdown::new();
    let election = Election::start(store.clone(), keys::LEADER, "a", Settings::default(), shutdown.clone());
    let leads = || matches!(&*election.role().borrow(), ElectionRole::Leader(_));
    within(SOON, "it leads", leads).await;
    shutdown.trigger();
    within(SOON, "it resigns", || !leads()).await;
}
