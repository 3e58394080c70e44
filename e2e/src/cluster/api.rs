//! The API of a cluster under test.

use contract::api::{ClusterStatus, Node};
use reqwest::{Method, StatusCode};
use serde_json::Value;

#[derive(Debug, Clone)]
pub(crate) struct Api {
    pub(super) urls: Vec<String>,
    pub(super) client: reqwest::Client,
}

#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Said { status: u16, body: Value },
    Nothing { why: String },
}

impl Api {
    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    pub(crate) async fn call(&self, index: usize, request: &Request, key: Option<&str>) -> Answer {
        let url = format!("{}{}", self.urls[index % self.urls.len()], request.path);
        let mut call = self.client.request(request.method.clone(), url);
        if let Some(key) = key {
            call = call.header("Idempotency-Key", key);
        }
        if let Some(body) = &request.body {
            call = call.json(body);
        }
        let said = async {
            let response = call.send().await?;
            let status = response.status().as_u16();
            Ok::<_, reqwest::Error>((status, response.text().await?))
        };
        match said.await {
            Ok((status, text)) => {
                Answer::Said { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
            }
            Err(error) => Answer::Nothing { why: error.to_string() },
        }
    }

    pub(crate) async fn get(&self, index: usize, path: &str) -> Answer {
        let request = Request { method: Method::GET, path: path.to_owned(), body: None };
        self.call(index, &request, None).await
    }

    /// A page outside of the API, such as /metrics.
    pub(crate) async fn page(&self, address: &str, path: &str) -> Option<String> {
        let response = self.client.get(format!("http://{address}{path}")).send().await.ok()?;
        (response.status() == StatusCode::OK).then_some(())?;
        response.text().await.ok()
    }

    /// Name and term of the leader, from the first apiserver that answers.
    pub(crate) async fn leader(&self) -> Option<(String, u64)> {
        for index in 0..self.urls.len() {
            if let Answer::Said { status: 200, body } = self.get(index, "/api/cluster").await
                && let Ok(cluster) = serde_json::from_value::<ClusterStatus>(body)
                && cluster.term > 0
            {
                return Some((cluster.leader, cluster.term));
            }
        }
        None
    }

    pub(crate) async fn node(&self, name: &str) -> Option<Node> {
        for index in 0..self.urls.len() {
            if let Answer::Said { status: 202, body } = self.get(index, "/api/nodes").await
                && let Ok(nodes) = serde_json::from_value::<Vec<Node>>(body)
            {
                return nodes.into_iter().find(|node| node.name == name);
            }
        }
        None
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
}
