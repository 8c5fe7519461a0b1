//! The stand-alone binary: see [`coreai_audit::cli`].

fn main() {
    std::process::exit(coreai_audit::cli::run(std::env::args_os()));
}
