//! The stand-alone binary: see [`coreai_audit::cli`].

fn main() {
    #[cfg(feature = "embed")]
    if std::env::args_os()
        .nth(1)
        .is_some_and(|a| a == coreai_audit::convert::WORKER_ARGUMENT)
    {
        std::process::exit(coreai_audit::python::embed::worker());
    }
    std::process::exit(coreai_audit::cli::run(std::env::args_os()));
}
