//! A nats-server and notifiers on it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use contract::digest::Digest;
use contract::notice::{DeadLetter, Incident, Notice, NoticeBody};
use contract::query::{Answer, Reply};
use contract::time::Timestamp;
use contract::{streams, subjects};
use fabric::local::NatsServer;
use fabric::nats::{Args, Bus};
use fabric::shutdown::Shutdown;
use notifier::app::{App, Error};
use notifier::config::Config;
use notifier::resolve::SystemResolver;
use reqwest::dns::Resolve;
use serde::Serialize;

use crate::receiver::{Post, Receiver};

pub(crate) struct World {
    pub(crate) nats: NatsServer,
    pub(crate) bus: Bus,
    pub(crate) directory: tempfile::TempDir,
}

/// A notifier as a process would run it, on a runtime of its own so that it can die at once.
pub(crate) struct Running {
    shutdown: Shutdown,
    runtime: Option<tokio::runtime::Runtime>,
    task: tokio::task::JoinHandle<Result<(), Error>>,
}

impl Running {
    /// As SIGTERM.
    pub(crate) async fn stop(mut self) {
        self.shutdown.trigger();
        self.task.await.unwrap().unwrap();
        self.runtime.take().unwrap().shutdown_background();
    }

    /// As SIGKILL: nothing it holds is put back.
    pub(crate) fn die(mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let nats = NatsServer::start(directory.path(), 0).await.unwrap();
        let bus = Bus::connect(&Args::at(nats.url()), "test").await.unwrap();
        let world = Self { nats, bus, directory };
        world.create_streams().await;
        world
    }

    /// As schedulers do after each connect.
    pub(crate) async fn create_streams(&self) {
        for stream in [&streams::NOTICES, &streams::DEAD_LETTERS] {
            self.bus.ensure_stream(&stream.into()).await.unwrap();
        }
    }

    /// A notifier that may post to the receivers of the test.
    pub(crate) async fn notifier(&self, flags: &[&str]) -> Running {
        let flags = [&["--callback-allow", "127.0.0.0/8"], flags].concat();
        self.strict_notifier(&flags, Arc::new(SystemResolver)).await
    }

    /// A notifier with these flags only.
    pub(crate) async fn strict_notifier(&self, flags: &[&str], resolver: Arc<dyn Resolve>) -> Running {
        let url = self.nats.url();
        let mut arguments = vec!["deployd-notifier", "--nats", &url];
        arguments.extend(flags);
        if !flags.contains(&"--listen") {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        let config = Config::parse_from(arguments);
        let shutdown = Shutdown::new();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (ready, built) = tokio::sync::oneshot::channel();
        let stop = shutdown.clone();
        let task = runtime.spawn(async move {
            let app = App::build_with(config, resolver).await?;
            ready.send(()).unwrap();
            app.run(stop).await
        });
        built.await.unwrap();
        Running { shutdown, runtime: Some(runtime), task }
    }

    pub(crate) async fn publish<T: Serialize>(&self, value: &T) {
        self.try_publish(value).await.unwrap();
    }

    pub(crate) async fn try_publish<T: Serialize>(&self, value: &T) -> Result<(), fabric::nats::Error> {
        let digest = Digest::of(value).to_string();
        let subject = subjects::notice(&digest);
        self.bus.publish_durable(&subject, &digest, &[], value, Duration::from_secs(5)).await.map(drop)
    }

    /// Number of notices that are waiting or not acknowledged.
    pub(crate) async fn unsettled(&self) -> u64 {
        let question = serde_json::json!({});
        let info: serde_json::Value = self
            .bus
            .request(
                &format!("$JS.API.CONSUMER.INFO.{}.{}", subjects::NOTICES_STREAM, subjects::NOTICES_CONSUMER),
                &question,
                Duration::from_secs(5),
            )
            .await
            .unwrap();
        // Nothing is settled before the consumer exists.
        let count = |name: &str| info[name].as_u64().unwrap_or(1 << 32);
        count("num_pending") + count("num_ack_pending")
    }

    pub(crate) async fn dead_letter(&self, number: u64) -> DeadLetter {
        crate::read_dead_letter(self, number).await
    }
}

/// A scheduler that leads and answers which callbacks are registered.
pub(crate) struct Leader {
    callbacks: Arc<Mutex<Vec<String>>>,
    /// Those that may have internal addresses; none: it does not say, like an older scheduler.
    former: Arc<Mutex<Option<BTreeSet<String>>>>,
}

impl Leader {
    pub(crate) fn allow_internal(&self, callbacks: &[&str]) {
        *self.former.lock().unwrap() = Some(callbacks.iter().map(|url| (*url).to_owned()).collect());
    }

    pub(crate) fn register(&self, callbacks: &[&str]) {
        *self.callbacks.lock().unwrap() = callbacks.iter().map(|url| (*url).to_owned()).collect();
    }
}

impl World {
    pub(crate) async fn leader(&self, callbacks: &[&str]) -> Leader {
        let leader = Leader { callbacks: Arc::default(), former: Arc::default() };
        leader.register(callbacks);
        let (bus, known, former) = (self.bus.clone(), leader.callbacks.clone(), leader.former.clone());
        let mut questions = bus.subscribe(subjects::QUERY_CALLBACKS).await.unwrap();
        fabric::tasks::spawn("leader", async move {
            while let Some(question) = questions.next().await {
                let answer = Answer::Callbacks(known.lock().unwrap().clone());
                let inbox = question.reply.expect("a reply subject");
                let former_callbacks = former.lock().unwrap().clone();
                let reply = Reply { former_callbacks, ..Reply::new(false, answer) };
                bus.answer(&inbox, &reply).await.unwrap();
            }
        });
        leader
    }
}

impl Receiver {
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Post> {
        eventually("posts", async || {
            let posted = self.posted();
            (posted.len() >= count).then_some(posted)
        })
        .await
    }
}

pub(crate) fn notice(callback: &str, instance: u32) -> Notice {
    Notice {
        callback: callback.to_owned(),
        is_former: false,
        body: NoticeBody {
            level: "Error".to_owned(),
            namespace: "hello".to_owned(),
            pod_name: "hello.web.web".to_owned(),
            instance_no: instance,
            timestamp: Timestamp::from_millis(1_700_000_000_000),
            message: Incident::Down.text().into_owned(),
        },
    }
}

/// Polls until `check` gives a value; the limit only ends a test that fails.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut check: impl FnMut() -> F) -> T {
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(tokio::time::Instant::now() < until, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
