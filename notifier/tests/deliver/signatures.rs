//! Signatures as a receiver verifies them, with its own HMAC over the raw body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use crate::receiver::{Manner, Post, Receiver};
use crate::world::{World, notice};

fn verifies(post: &Post, secret: &[u8]) -> bool {
    let header = |name: &str| post.headers[name].to_str().unwrap();
    let signed = format!("{}.{}.{}", header("webhook-id"), header("webhook-timestamp"), post.body);
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let is_valid = |signature: &str| {
        let tag = STANDARD.decode(signature.strip_prefix("v1,").unwrap()).unwrap();
        hmac::verify(&key, signed.as_bytes(), &tag).is_ok()
    };
    header("webhook-signature").split(' ').any(is_valid)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_verifies_notices_by_either_secret_and_knows_a_retry_by_its_id() {
    let world = World::start().await;
    let receiver = Receiver::start(Manner::Refuses).await;
    let secrets = [[1; 32], [2; 32]];
    let files = ["old", "new"].map(|name| world.directory.path().join(name).display().to_string());
    for (file, secret) in files.iter().zip(secrets) {
        std::fs::write(file, format!("whsec_{}\n", STANDARD.encode(secret))).unwrap();
    }
    let flags = ["--webhook-secret-file", &files[0], "--webhook-secret-file", &files[1], "--retry-delays", "100ms"];
    let notifier = world.notifier(&flags).await;
    world.publish(&notice(&receiver.url(), 1)).await;
    let posts = receiver.wait_for(2).await;
    receiver.change(Manner::Takes);
    world.publish(&notice(&receiver.url(), 2)).await;
    let other = receiver.wait_for(3).await.remove(2);
    for post in posts.iter().chain([&other]) {
        assert!(secrets.iter().all(|secret| verifies(post, secret)), "{post:?}");
        assert!(!verifies(post, &[3; 32]), "{post:?}");
        let changed = Post { body: post.body.replace("Error", "error"), ..post.clone() };
        assert!(!verifies(&changed, &secrets[0]), "{changed:?}");
    }
    let id = |post: &Post| post.headers["webhook-id"].clone();
    assert!(id(&posts[0]) == id(&posts[1]) && id(&posts[0]) != id(&other));
    notifier.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_secret_there_is_no_signature() {
    let world = World::start().await;
    let receiver = Receiver::start(Manner::Takes).await;
    let notifier = world.notifier(&[]).await;
    world.publish(&notice(&receiver.url(), 1)).await;
    let post = receiver.wait_for(1).await.remove(0);
    assert!(!post.headers.contains_key("webhook-signature") && post.headers.contains_key("webhook-id"));
    notifier.stop().await;
}
