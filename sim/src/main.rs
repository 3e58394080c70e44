//! The simulator's command line: one seed with its trace, or many seeds with a summary.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use sim::mutant::Mutant;
use sim::progress_bar::Progress;
use sim::run::{History, run};

const EXAMPLES: &str = "Examples:
  sim --seeds 1000             1,000 histories, each run twice, with a summary
  sim --seeds 500 --from 2000  histories 2000 to 2499
  sim --seed 42 --trace        one history, every event
  sim --seed 42 --trace | grep -E 'fault|etcd'   faults and commits only
  sim --seeds 200 --mutant no-fence   the invariants must notice a missing guard";

/// Runs the real scheduler and agent cores through simulated histories.
#[derive(Debug, Parser)]
#[command(name = "sim", after_help = EXAMPLES)]
struct Arguments {
    /// Run this seed alone.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Print every event of the seed.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Number of seeds.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Switch one guard off; the run then fails if no seed breaks an invariant.
    #[arg(long)]
    mutant: Option<Mutant>,
    /// Seeds to run in parallel; 0 means one per processor.
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let failed = match arguments.seed {
        Some(seed) => one(seed, &arguments),
        None => many(&arguments),
    };
    // A mutant must be found.
    let good = if arguments.mutant.is_some() { failed > 0 } else { failed == 0 };
    if good { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}

fn one(seed: u64, arguments: &Arguments) -> u64 {
    let history = run(seed, arguments.mutant, arguments.trace);
    if arguments.trace {
        let mut out = std::io::stdout().lock();
        for line in &history.lines {
            // The reader closed the pipe (`| head`).
            if writeln!(out, "{line}").is_err() {
                break;
            }
        }
    }
    report(seed, &history, arguments.mutant);
    if history.violation.is_none() {
        println!("seed {seed}: {} events, sum {:016x}, all invariants hold", history.count, history.sum);
    }
    u64::from(history.violation.is_some())
}

fn many(arguments: &Arguments) -> u64 {
    let threads = match arguments.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let progress = Progress::new(arguments.seeds);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= arguments.seeds {
                        break;
                    }
                    let seed = arguments.from + number;
                    let history = run(seed, arguments.mutant, false);
                    failed.fetch_add(u64::from(history.violation.is_some()), Ordering::Relaxed);
                    progress.suspend(|| report(seed, &history, arguments.mutant));
                    progress.step(failed.load(Ordering::Relaxed));
                }
            });
        }
    });
    progress.finish();
    let failed = failed.into_inner();
    println!("{} passed, {failed} failed", arguments.seeds - failed);
    failed
}

fn report(seed: u64, history: &History, mutant: Option<Mutant>) {
    if let Some(violation) = &history.violation {
        let name = mutant.and_then(|mutant| clap::ValueEnum::to_possible_value(&mutant));
        let option = name.map(|name| format!(" --mutant {}", name.get_name())).unwrap_or_default();
        println!(
            "seed {seed} breaks {:?}: {}\n  replay: cargo run -p sim -- --seed {seed} --trace{option}",
            violation.invariant, violation.detail
        );
    }
}
