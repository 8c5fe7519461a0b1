//! Findings and how they are shown.
//!
//! A [`Finding`] is data: what a check saw, where, and what to do about it. It never travels as an
//! error; errors are for checks that could not run.

mod changes;
mod finding;
mod human;
mod ids;
mod paint;

pub use changes::{count_changes, render_changes};
pub use finding::{fails, Finding, Severity, Stage};
pub use human::render_findings;
pub use ids::IDS;
pub use paint::Paint;
