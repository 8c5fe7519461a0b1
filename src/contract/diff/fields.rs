//! Changes of dtype, shape and access of one entry.

use super::change::{Change, ChangeId, Impact};
use super::entry::Entry;
use super::Role;
use super::{Comparison, Pair};
use crate::contract::{render, Access, Dim};
use crate::text;

/// Tells every field that differs between the paired entries.
pub(super) fn changes(changes: &mut Vec<Change>, comparison: &Comparison<'_>, pairs: &[Pair]) {
    for &(old, new) in pairs {
        let pair = FieldPair {
            comparison,
            old: &comparison.old[old],
            new: &comparison.new[new],
        };
        changes.extend(pair.dtype());
        changes.extend(pair.rank());
        changes.extend(pair.extents());
        changes.extend(pair.access());
    }
}

struct FieldPair<'a> {
    comparison: &'a Comparison<'a>,
    old: &'a Entry<'a>,
    new: &'a Entry<'a>,
}

impl FieldPair<'_> {
    fn dtype(&self) -> Option<Change> {
        let (before, after) = (self.old.dtype, self.new.dtype);
        let is = |entry: &Entry<'_>| entry.source.is_some_and(|s| s.dtype == entry.dtype);
        let in_torch = if is(self.old) && is(self.new) {
            ", as in torch"
        } else {
            ""
        };
        let shown = format!("{} → {}{in_torch}", text::line(before), text::line(after));
        (before != after).then(|| {
            self.change(
                ChangeId::DtypeChanged,
                (before.to_owned(), after.to_owned()),
                format!("dtype {shown}"),
                self.refused("the dtype is another"),
            )
        })
    }

    fn rank(&self) -> Option<Change> {
        let (before, after) = (self.old.shape, self.new.shape);
        (before.len() != after.len()).then(|| {
            self.change(
                ChangeId::RankChanged,
                self.shapes(),
                format!(
                    "rank {} → {}: {} → {}",
                    before.len(),
                    after.len(),
                    render::shape(before),
                    render::shape(after)
                ),
                self.refused("the number of dimensions is another"),
            )
        })
    }

    /// Changes of extents, one per kind of change, for shapes of one rank.
    fn extents(&self) -> Vec<Change> {
        if self.old.shape.len() != self.new.shape.len() {
            return Vec::new();
        }
        let told = |kind: fn(&Dim, &Dim) -> bool| -> Option<String> {
            let dims: Vec<String> = (self.old.shape.iter().zip(self.new.shape).enumerate())
                .filter(|(_, (before, after))| kind(before, after))
                .map(|(at, (before, after))| {
                    format!("dimension {at}: {} → {}", extent(*before), extent(*after))
                })
                .collect();
            (!dims.is_empty()).then(|| dims.join(", "))
        };
        let changed = told(|a, b| a != b && a.is_some() && b.is_some()).map(|dims| {
            self.change(
                ChangeId::ExtentChanged,
                self.shapes(),
                dims,
                self.refused("the extent is another"),
            )
        });
        let became_static = told(|a, b| a.is_none() && b.is_some()).map(|dims| {
            self.change(
                ChangeId::BecameStatic,
                self.shapes(),
                format!("{dims}, no longer dynamic"),
                self.refused("any other extent worked before"),
            )
        });
        let became_dynamic = told(|a, b| a.is_some() && b.is_none()).map(|dims| Change {
            severity: Impact::Compatible,
            ..self.change(
                ChangeId::BecameDynamic,
                self.shapes(),
                format!("{dims}, now dynamic"),
                "notices nothing at the old extent; the descriptor no longer gives one".to_owned(),
            )
        });
        [changed, became_static, became_dynamic]
            .into_iter()
            .flatten()
            .collect()
    }

    fn access(&self) -> Option<Change> {
        let (before, after) = (self.old.access?, self.new.access?);
        let effect = access_effect(before, after)?;
        Some(Change {
            severity: effect.severity,
            ..self.change(
                ChangeId::AccessChanged,
                (before.to_string(), after.to_string()),
                format!("access {before} → {after}: {}", effect.told),
                effect.seen.to_owned(),
            )
        })
    }

    fn shapes(&self) -> (String, String) {
        (render::shape(self.old.shape), render::shape(self.new.shape))
    }

    fn refused(&self, why: &str) -> String {
        match self.new.role {
            Role::Output => format!("reads what it does not expect: {why}"),
            Role::Input | Role::State => format!("is refused: {why}"),
        }
    }

    fn change(&self, id: ChangeId, values: (String, String), what: String, seen: String) -> Change {
        Change {
            id,
            severity: Impact::Breaking,
            function: self.comparison.function.to_owned(),
            role: Some(self.new.role),
            old_role: self.old.left_for(self.new),
            subject: Some(self.new.name.to_owned()),
            old_positions: vec![self.old.position],
            new_positions: vec![self.new.position],
            old: Some(values.0),
            new: Some(values.1),
            message: format!("{}: {what}", self.new.label()),
            by_position: seen.clone(),
            by_name: seen,
        }
    }
}

fn extent(dim: Dim) -> String {
    dim.map_or_else(|| "?".to_owned(), |n| n.to_string())
}

struct AccessEffect {
    severity: Impact,
    told: &'static str,
    seen: &'static str,
}

/// What the caller of a state gains or loses; `None` where nothing changed.
///
/// Reading is about the value on entry, writing about the value after the call. A caller is hurt when
/// a value starts to matter (it has to be prepared and kept), stops to matter (what it kept is
/// ignored), starts to be overwritten or stops to be updated. Only a state that had, or now has, no
/// effect on anything is harmless.
fn access_effect(before: Access, after: Access) -> Option<AccessEffect> {
    use Access::{ReadOnly, ReadWrite, Unused, WriteOnly};
    let (severity, told, seen) = match (before, after) {
        (ReadWrite, ReadWrite)
        | (WriteOnly, WriteOnly)
        | (ReadOnly, ReadOnly)
        | (Unused, Unused) => return None,
        (ReadWrite, ReadOnly) => (
            Impact::Breaking,
            "it is no longer updated",
            "finds the old value in it after every call: what was to be kept is lost",
        ),
        (ReadWrite, WriteOnly) => (
            Impact::Breaking,
            "what it holds is no longer read",
            "keeps a value from call to call that no longer has an effect",
        ),
        (ReadWrite, Unused) => (
            Impact::Breaking,
            "it is neither read nor updated any more",
            "keeps a value that no longer has an effect and no longer changes",
        ),
        (WriteOnly, ReadWrite) => (
            Impact::Breaking,
            "what it holds is now read",
            "has to initialise it and keep it from call to call; what it passes now reaches the result",
        ),
        (WriteOnly, ReadOnly) => (
            Impact::Breaking,
            "it is now read and no longer written",
            "has to fill it; nothing is stored in it any more",
        ),
        (WriteOnly, Unused) => (
            Impact::Breaking,
            "it is no longer written",
            "finds nothing new in it after a call",
        ),
        (ReadOnly, ReadWrite) => (
            Impact::Breaking,
            "it is now updated",
            "finds it changed after a call; one copy can no longer be shared",
        ),
        (ReadOnly, WriteOnly) => (
            Impact::Breaking,
            "it is now overwritten and no longer read",
            "finds it overwritten after a call; what it passes no longer has an effect",
        ),
        (ReadOnly, Unused) => (
            Impact::Compatible,
            "it is no longer read",
            "passes a value that no longer has an effect",
        ),
        (Unused, ReadOnly | ReadWrite) => (
            Impact::Breaking,
            "what it holds is now read",
            "has to initialise it; what it passes now reaches the result",
        ),
        (Unused, WriteOnly) => (
            Impact::Compatible,
            "it is now written",
            "finds it changed after a call; what it held had no effect before",
        ),
    };
    Some(AccessEffect {
        severity,
        told,
        seen,
    })
}
