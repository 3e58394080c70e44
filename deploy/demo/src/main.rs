//! The demo workload: a small HTTP server whose answer names the instance.
//!
//! It is linked statically, so that a `FROM scratch` image can contain only it. It exits on SIGTERM, which process 1 of a
//! container would otherwise ignore. `/demo check` exits with 0 if the server of its container accepts connections; `/demo serve PORT` listens on
//! another port. Environment variables for tests:
//!
//! * `DEMO_EXIT_AFTER_MS`, `DEMO_EXIT_CODE`: exit after a while with this code.
//! * `DEMO_EAT_MEMORY_AFTER_MS`: allocate memory after a while until the kernel kills it.
//! * `DEMO_DATABASE`: an `address:port`; without a connection to it, exit with 1.
//! * `DEMO_USER`: create a file, give it to this numeric user, and continue as that user, like images that start as root.
//! * `DEMO_LINES`: write this many numbered lines at the start, every third to standard error.
//! * `DEMO_LINE_EVERY_MS`: write such lines all the time, one after each pause.
//! * `DEMO_VERSION`: shown in the answer, to distinguish images.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::exit;
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("check") {
        return TcpStream::connect(("127.0.0.1", port())).map(drop);
    }
    if let Some(user) = number("DEMO_USER").and_then(|n| u32::try_from(n).ok()) {
        return Err(become_user(user));
    }
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            exit(0);
        }
    });
    if let Some(millis) = number("DEMO_EXIT_AFTER_MS") {
        let code = number("DEMO_EXIT_CODE").and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
        thread::spawn(move || {
            thread::park_timeout(Duration::from_millis(millis));
            exit(code);
        });
    }
    if let Some(millis) = number("DEMO_EAT_MEMORY_AFTER_MS") {
        thread::spawn(move || {
            thread::park_timeout(Duration::from_millis(millis));
            eat();
        });
    }
    (1..=number("DEMO_LINES").unwrap_or(0)).for_each(write_line);
    if let Some(millis) = number("DEMO_LINE_EVERY_MS") {
        thread::spawn(move || {
            for number in 1.. {
                write_line(number);
                thread::park_timeout(Duration::from_millis(millis));
            }
        });
    }
    if let Ok(address) = std::env::var("DEMO_DATABASE") {
        let database = TcpStream::connect(&address).unwrap_or_else(|error| lose_database(&address, &error.to_string()));
        thread::spawn(move || {
            let read = (&database).read(&mut [0]);
            lose_database(&address, &read.map_or_else(|error| error.to_string(), |_| "disconnected".to_owned()));
        });
    }
    let port = port();
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    println!("demo listens on {port}");
    for stream in listener.incoming() {
        // Ignore clients that disconnect early.
        let _ = stream.and_then(answer);
    }
    Ok(())
}

/// Returns only when it fails.
fn become_user(user: u32) -> io::Error {
    let prepared =
        std::fs::write("/owned", "x").and_then(|()| std::os::unix::fs::chown("/owned", Some(user), Some(user)));
    if let Err(error) = prepared {
        return error;
    }
    println!("demo continues as user {user}");
    std::process::Command::new("/proc/self/exe").uid(user).gid(user).env_remove("DEMO_USER").exec()
}

fn lose_database(address: &str, reason: &str) -> ! {
    println!("no database at {address}: {reason}");
    exit(1)
}

fn write_line(number: u64) {
    match number % 3 {
        0 => eprintln!("line {number}"),
        _ => println!("line {number}"),
    }
}

/// Allocates and touches memory until the kernel kills the process.
fn eat() {
    let mut eaten = Vec::new();
    loop {
        eaten.push(vec![1_u8; 1 << 20]);
        // Keeps the compiler from optimising the writes away.
        std::hint::black_box(&eaten);
    }
}

fn port() -> u16 {
    let given = std::env::args().nth(2).and_then(|text| text.parse().ok());
    given.or_else(|| u16::try_from(number("PORT")?).ok()).unwrap_or(8080)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut request = [0; 1024];
    let _ = stream.read(&mut request)?;
    let name = std::env::var("DEPLOYD_POD_NAME").unwrap_or_else(|_| "demo".to_owned());
    let instance = std::env::var("DEPLOYD_POD_INSTANCE_NO").unwrap_or_else(|_| "?".to_owned());
    let version = std::env::var("DEMO_VERSION").map(|version| format!(" version {version}")).unwrap_or_default();
    let body = format!("hello from {name} instance {instance}{version}\n");
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}
