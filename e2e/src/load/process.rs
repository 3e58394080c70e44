//! The scheduler process, and the memory and CPU time of processes, from /proc.

use std::time::Duration;

use clap::Parser;
use fabric::shutdown::Shutdown;
use scheduler::app::App;
use scheduler::config::Config;

/// Kernel clock ticks per second.
const TICKS: u64 = 100;

/// The scheduler's `main` with its own arguments.
pub(crate) fn run_scheduler(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let name = "deployd-scheduler".to_owned();
    let config = Config::parse_from(std::iter::once(&name).chain(arguments));
    fabric::telemetry::init(&config.telemetry);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let shutdown = Shutdown::on_signals();
        let app = Box::pin(App::build(config)).await?;
        Ok(app.run(shutdown).await?)
    })
}

/// 0 if the process is gone.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Zero if the process is gone.
pub(crate) fn processor_time(pid: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may contain blanks; the fields after its bracket do not. utime and stime are fields 14 and 15.
    let after = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * (1000 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_uses_time() {
        let pid = std::process::id();
        assert!(resident_bytes(pid) > 1 << 20);
        let mut sum = 0_u64;
        while processor_time(pid).is_zero() {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        assert_eq!((resident_bytes(u32::MAX), processor_time(u32::MAX)), (0, Duration::ZERO));
    }
}
