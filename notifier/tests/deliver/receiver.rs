//! A callback: an HTTP server that remembers what it was sent. The tests of whole clusters use it too.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

/// How it behaves.
#[derive(Debug, Clone)]
pub(crate) enum Manner {
    Takes,
    Refuses,
    Hangs,
    Redirects(String),
    Answers(u16, &'static str),
}

/// What it was sent.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    pub(crate) at: Instant,
    pub(crate) content_type: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Post {
    pub(crate) fn instance(&self) -> u64 {
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap();
        body["InstanceNo"].as_u64().unwrap()
    }
}

#[derive(Clone)]
struct Memory {
    posts: Arc<Mutex<Vec<Post>>>,
    manner: Arc<Mutex<Manner>>,
}

pub(crate) struct Receiver {
    address: std::net::SocketAddr,
    memory: Memory,
}

impl Receiver {
    pub(crate) async fn start(manner: Manner) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let memory = Memory { posts: Arc::default(), manner: Arc::new(Mutex::new(manner)) };
        let router = axum::Router::new().fallback(receive).with_state(memory.clone());
        fabric::tasks::spawn("receiver", async move { axum::serve(listener, router).await.unwrap() });
        Self { address, memory }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?a=b", self.address)
    }

    pub(crate) fn posted(&self) -> Vec<Post> {
        self.memory.posts.lock().unwrap().clone()
    }

    pub(crate) fn change(&self, manner: Manner) {
        *self.memory.manner.lock().unwrap() = manner;
    }
}

async fn receive(State(memory): State<Memory>, request: Request) -> Response {
    let headers = request.headers().clone();
    let content_type = request.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    memory.posts.lock().unwrap().push(Post { at: Instant::now(), content_type, headers, body });
    let manner = memory.manner.lock().unwrap().clone();
    match manner {
        Manner::Takes => StatusCode::NO_CONTENT.into_response(),
        Manner::Refuses => (StatusCode::INTERNAL_SERVER_ERROR, "out of order".repeat(10_000)).into_response(),
        Manner::Hangs => std::future::pending().await,
        Manner::Answers(status, body) => (StatusCode::from_u16(status).unwrap(), body).into_response(),
        Manner::Redirects(to) => (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, to)]).into_response(),
    }
}
