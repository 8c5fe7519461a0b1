//! Typed intermediate representation of a Core AI program.
