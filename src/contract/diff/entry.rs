//! Inputs, states and outputs under one view, and the words for them.

use super::Role;
use crate::contract::{render, Access, Dim, Function, Port, Source, SourceKind, State};
use crate::text;

/// An input, state or output with its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub role: Role,
    pub position: usize,
    pub name: &'a str,
    pub dtype: &'a str,
    pub shape: &'a [Dim],
    /// States only.
    pub access: Option<Access>,
    pub source: Option<&'a Source>,
}

impl<'a> Entry<'a> {
    /// Every entry of a function: inputs, then states, then outputs.
    pub fn all(function: &'a Function) -> Vec<Entry<'a>> {
        let inputs = function
            .inputs
            .iter()
            .enumerate()
            .map(|(i, p)| Self::port(Role::Input, i, p));
        let states = function
            .states
            .iter()
            .enumerate()
            .map(|(i, s)| Self::state(i, s));
        let outputs = function
            .outputs
            .iter()
            .enumerate()
            .map(|(i, p)| Self::port(Role::Output, i, p));
        inputs.chain(states).chain(outputs).collect()
    }

    fn port(role: Role, position: usize, port: &'a Port) -> Self {
        Entry {
            role,
            position,
            name: &port.name,
            dtype: &port.dtype,
            shape: &port.shape,
            access: None,
            source: port.source.as_ref(),
        }
    }

    fn state(position: usize, state: &'a State) -> Self {
        Entry {
            role: Role::State,
            position,
            name: &state.name,
            dtype: &state.dtype,
            shape: &state.shape,
            access: Some(state.access),
            source: state.source.as_ref(),
        }
    }

    /// The list this entry was in, where what became of it is in another one.
    pub fn left_for(&self, new: &Entry<'_>) -> Option<Role> {
        (self.role != new.role).then_some(self.role)
    }

    /// Whether both have a source and it is not the same tensor.
    pub fn is_resourced(&self, other: &Entry<'_>) -> bool {
        matches!((self.source, other.source), (Some(a), Some(b)) if !a.same_tensor(b))
    }

    /// Whether both have a source and it is the same tensor.
    pub fn has_source_of(&self, other: &Entry<'_>) -> bool {
        matches!((self.source, other.source), (Some(a), Some(b)) if a.same_tensor(b))
    }

    /// How many of dtype, shape and access differ.
    pub fn unlikeness(&self, other: &Entry<'_>) -> usize {
        usize::from(self.dtype != other.dtype)
            + usize::from(self.shape != other.shape)
            + usize::from(self.access != other.access)
    }

    /// What a consumer sees that ignores names: dtype, shape, access.
    pub fn look(&self) -> (&'a str, &'a [Dim], Option<Access>) {
        (self.dtype, self.shape, self.access)
    }

    /// Whether a value for one is accepted in the place of the other.
    pub fn is_interchangeable(&self, other: &Entry<'_>) -> bool {
        let fits = |(a, b): (&Dim, &Dim)| a == b || a.is_none() || b.is_none();
        self.dtype == other.dtype
            && self.shape.len() == other.shape.len()
            && self.shape.iter().zip(other.shape).all(fits)
    }

    /// The name as reports show it.
    pub fn shown(&self) -> String {
        text::name(self.name).into_owned()
    }

    /// `state 0 key_cache`.
    pub fn label(&self) -> String {
        format!("{} {} {}", self.role, self.position, text::name(self.name))
    }

    /// `float16 [2, ?] read-write, buffer layers.k`: all there is to say about what was added or removed.
    pub fn description(&self) -> String {
        let mut words = format!("{} {}", text::line(self.dtype), render::shape(self.shape));
        if let Some(access) = self.access {
            words.push_str(&format!(" {access}"));
        }
        if let Some(source) = self.source {
            words.push_str(&format!(", {}", shown_source(source)));
        }
        words
    }
}

/// `buffer layers.k`.
pub(super) fn shown_source(source: &Source) -> String {
    format!("{} {}", source.kind.as_str(), text::name(&source.name))
}

/// `buffers`, `arguments`, or `values` where both kinds or none are meant.
pub(super) fn sources_noun<'a>(sources: impl Iterator<Item = &'a Source>) -> &'static str {
    let (mut buffer, mut argument) = (false, false);
    for source in sources {
        match source.kind {
            SourceKind::Buffer => buffer = true,
            SourceKind::Argument => argument = true,
        }
    }
    match (buffer, argument) {
        (true, false) => "buffers",
        (false, true) => "arguments",
        _ => "values",
    }
}

/// How many names or moves a sentence holds before it says `and N more`.
const SENTENCE: usize = 8;

/// The items as a sentence, cut after the first eight.
pub(super) fn sentence(items: &[String]) -> String {
    match items.get(..SENTENCE) {
        Some(first) if items.len() > SENTENCE => {
            format!("{} and {} more", first.join(", "), items.len() - SENTENCE)
        }
        _ => items.join(", "),
    }
}

/// `state 0`, `states 0 and 1`.
pub(super) fn places(role: Role, positions: &[usize]) -> String {
    let numbers: Vec<String> = positions.iter().map(usize::to_string).collect();
    let numbers = if numbers.len() > SENTENCE {
        sentence(&numbers)
    } else {
        text::list(&numbers)
    };
    if positions.len() == 1 {
        format!("{role} {numbers}")
    } else {
        format!("{role}s {numbers}")
    }
}
