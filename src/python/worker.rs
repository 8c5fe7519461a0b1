//! The worker's side: drives PyTorch and the converter, one request after the other.
//!
//! Events go out on what was standard output when the process started. Python never sees that stream:
//! whatever a recipe or the converter prints goes to standard error, which the supervisor keeps as the
//! log.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::{mpsc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyString;

use super::reference::{self, Stored};
use crate::convert::protocol::{DescriptorFunction, Event, PythonError, Request, Step};

/// Serves requests on standard input until it closes, then ends the process.
pub fn serve(py: Python<'_>) -> io::Result<()> {
    let (mut events, requests) = private_streams()?;
    let started = start(py);
    if let Ok(versions) = &started {
        send(
            &mut events,
            &Event::Ready {
                versions: versions.clone(),
            },
        )?;
    }
    // Waiting must not hold the interpreter: recipes may have started threads.
    let requests = Mutex::new(requests);
    while let Some(request) = py.detach(|| requests.lock().ok()?.recv().ok()) {
        let result = match &started {
            Ok(_) => convert(py, &request, &mut events),
            Err(error) => Err(Interrupted::Python(error.clone_ref(py))),
        };
        match result {
            Ok(()) => send(&mut events, &Event::Done)?,
            Err(Interrupted::Stream(error)) => return Err(error),
            Err(Interrupted::Python(error)) => {
                let error = describe(py, &error, &request.recipe);
                send(&mut events, &Event::Failed { error })?;
            }
        }
    }
    Ok(())
}

/// Imports torch and the converter; returns the toolchain's versions.
fn start(py: Python<'_>) -> PyResult<serde_json::Value> {
    py.import("faulthandler")?.call_method0("enable")?;
    let session = py.import("coreai_audit.worker.session")?;
    session.call_method0("warm_up")?;
    json(&session.call_method0("versions")?)
}

enum Interrupted {
    Python(PyErr),
    Stream(io::Error),
}

impl From<PyErr> for Interrupted {
    fn from(error: PyErr) -> Self {
        Interrupted::Python(error)
    }
}

impl From<io::Error> for Interrupted {
    fn from(error: io::Error) -> Self {
        Interrupted::Stream(error)
    }
}

/// One conversion; the session forgets the recipe's modules however it ends.
fn convert(py: Python<'_>, request: &Request, events: &mut File) -> Result<(), Interrupted> {
    let session = py
        .import("coreai_audit.worker.session")?
        .getattr("Session")?
        .call1((&request.recipe, &request.function, request.debug_info))?;
    let result = stages(py, &session, request, events);
    let facts = session.call_method0("facts_json");
    if let Ok(files) = session.call_method0("files_json") {
        let files = serde_json::from_value(json(&files)?).map_err(io::Error::from)?;
        send(events, &Event::Files { files })?;
    }
    if result.is_err() {
        // What is known so far explains the failure.
        if let Ok(facts) = facts {
            send_facts(events, &facts)?;
        }
    }
    session.call_method0("close")?;
    result
}

fn stages(
    py: Python<'_>,
    session: &Bound<'_, PyAny>,
    request: &Request,
    events: &mut File,
) -> Result<(), Interrupted> {
    let stage = |step: Step, events: &mut File| send(events, &Event::Step { step });

    stage(Step::Recipe, events)?;
    let kind: String = session.call_method0("load")?.extract()?;
    match kind.as_str() {
        "module" | "exported" => {
            stage(Step::Observe, events)?;
            session.call_method0("observe")?;
            if let Some(path) = &request.reference {
                stage(Step::Reference, events)?;
                reference(session, path, request.steps, events)?;
            }
            stage(Step::Export, events)?;
            session.call_method0("export")?;
            stage(Step::Decompose, events)?;
            session.call_method0("decompose")?;
            send_facts(events, &session.call_method0("facts_json")?)?;
            stage(Step::Convert, events)?;
            session.call_method0("convert")?;
        }
        "program" => {
            stage(Step::Convert, events)?;
            session.call_method0("build")?;
        }
        _ => {
            stage(Step::Save, events)?;
            session.call_method1("copy_asset", (&request.asset,))?;
            // coreai-core ends the process on malformed bytes: look at them here first.
            let asset = std::path::Path::new(&request.asset);
            py.detach(|| crate::asset::read_module(asset).map(drop))
                .map_err(|e| PyValueError::new_err(format!("the asset cannot be read: {e}")))?;
            send(events, &Event::Saved)?;
            session.call_method1("load_program", (&request.asset,))?;
        }
    }
    if kind != "asset" {
        stage(Step::Optimize, events)?;
        session.call_method0("optimize")?;
    }
    stage(Step::Print, events)?;
    let text = session.call_method0("print_ir")?.extract()?;
    send(events, &Event::Ir { text })?;
    if kind != "asset" {
        stage(Step::Save, events)?;
        session.call_method1("save", (&request.asset,))?;
        send(events, &Event::Saved)?;
    }
    stage(Step::Describe, events)?;
    let descriptor = py
        .import("coreai_audit.worker.describe")?
        .call_method1("describe", (&request.asset,))?;
    let mut descriptor = json(&descriptor)?;
    let functions: Vec<DescriptorFunction> =
        serde_json::from_value(descriptor["functions"].take()).map_err(io::Error::from)?;
    send(events, &Event::Descriptor { functions })?;
    Ok(())
}

/// Records the reference trace; that there is none is told with the facts.
fn reference(
    session: &Bound<'_, PyAny>,
    path: &str,
    steps: Option<u32>,
    events: &mut File,
) -> Result<(), Interrupted> {
    type Recorded = (Option<String>, Vec<(String, Vec<usize>, PyBackedBytes)>);
    let (document, tensors): Recorded = session.call_method1("reference", (steps,))?.extract()?;
    let Some(document) = document else {
        return Ok(());
    };
    let stored: Vec<Stored<'_>> = tensors
        .iter()
        .map(|(dtype, shape, bytes)| Stored {
            dtype,
            shape,
            bytes,
        })
        .collect();
    reference::write(std::path::Path::new(path), &document, &stored).map_err(|e| {
        PyValueError::new_err(format!("the reference trace cannot be written: {e}"))
    })?;
    Ok(send(events, &Event::Reference)?)
}

fn send(events: &mut File, event: &Event) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    events.write_all(&line)?;
    events.flush()
}

fn send_facts(events: &mut File, facts: &Bound<'_, PyAny>) -> Result<(), Interrupted> {
    let mut facts = json(facts)?;
    let functions = serde_json::from_value(facts["functions"].take()).map_err(io::Error::from)?;
    Ok(send(events, &Event::Facts { functions })?)
}

/// JSON text made by our own Python side.
fn json(text: &Bound<'_, PyAny>) -> PyResult<serde_json::Value> {
    let text: String = text.extract()?;
    serde_json::from_str(&text).map_err(|e| pyo3::exceptions::PyValueError::new_err(e.to_string()))
}

/// A Python exception as data; if even that fails, its bare text.
fn describe(py: Python<'_>, error: &PyErr, recipe: &str) -> PythonError {
    let described = py
        .import("coreai_audit.worker.failures")
        .and_then(|m| m.call_method1("describe", (error.clone_ref(py).into_value(py), recipe)))
        .and_then(|d| py.import("json")?.call_method1("dumps", (d,)))
        .and_then(|text| json(&text))
        .map_err(|e| e.to_string())
        .and_then(|value| serde_json::from_value(value).map_err(|e| e.to_string()));
    if let Err(why) = &described {
        eprintln!("the exception could not be described: {why}");
    }
    described.unwrap_or_else(|_| PythonError {
        kind: "python".into(),
        class: error
            .get_type(py)
            .name()
            .map_or_else(|_| "Exception".into(), |n| n.to_string()),
        message: error
            .value(py)
            .str()
            .map_or_else(|_| String::new(), |s: Bound<'_, PyString>| s.to_string()),
        module: None,
        frames: Vec::new(),
    })
}

/// Takes standard input and output for the protocol and leaves Python an empty input and the log.
///
/// The process ends as soon as its input closes, whatever Python is doing: the supervisor is gone.
#[cfg(unix)]
fn private_streams() -> io::Result<(File, mpsc::Receiver<Request>)> {
    use rustix::stdio;
    let events = File::from(rustix::io::dup(stdio::stdout())?);
    let input = File::from(rustix::io::dup(stdio::stdin())?);
    stdio::dup2_stdout(stdio::stderr())?;
    stdio::dup2_stdin(File::open("/dev/null")?)?;
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(input).lines() {
            let Ok(line) = line else { break };
            let Ok(request) = serde_json::from_str(&line) else {
                break;
            };
            if sender.send(request).is_err() {
                break;
            }
        }
        end_group();
    });
    Ok((events, requests))
}

/// Ends this process and what recipes started from it: nobody is left to report to.
#[cfg(unix)]
fn end_group() -> ! {
    use rustix::process::{getpgrp, getpid, kill_process_group, Signal};
    // Only a group of our own: run by hand, the group is the caller's.
    if getpgrp() == getpid() {
        let _ = kill_process_group(getpid(), Signal::KILL);
    }
    std::process::exit(0)
}

#[cfg(not(unix))]
fn private_streams() -> io::Result<(File, mpsc::Receiver<Request>)> {
    Err(io::Error::other("conversion runs on Linux and macOS only"))
}
