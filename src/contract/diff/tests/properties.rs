//! What holds for any two contracts.

use super::*;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::HashSet;

/// One edit of a function, of the kinds people make.
#[derive(Clone, Debug)]
enum Edit {
    SwapPlaces(Role, Index, Index),
    SwapNames(Role, Index, Index),
    SwapSources(Index, Index),
    Rename(Role, Index),
    Dtype(Role, Index),
    Dynamic(Role, Index),
    Access(Index),
    Remove(Role, Index),
    Add(Role, Index),
    Promote(Index),
}

fn any_role() -> impl Strategy<Value = Role> {
    prop_oneof![Just(Role::Input), Just(Role::State), Just(Role::Output)]
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        (any_role(), at(), at()).prop_map(|(r, a, b)| Edit::SwapPlaces(r, a, b)),
        (any_role(), at(), at()).prop_map(|(r, a, b)| Edit::SwapNames(r, a, b)),
        (at(), at()).prop_map(|(a, b)| Edit::SwapSources(a, b)),
        (any_role(), at()).prop_map(|(r, a)| Edit::Rename(r, a)),
        (any_role(), at()).prop_map(|(r, a)| Edit::Dtype(r, a)),
        (any_role(), at()).prop_map(|(r, a)| Edit::Dynamic(r, a)),
        at().prop_map(Edit::Access),
        (any_role(), at()).prop_map(|(r, a)| Edit::Remove(r, a)),
        (any_role(), at()).prop_map(|(r, a)| Edit::Add(r, a)),
        at().prop_map(Edit::Promote),
    ]
}

/// Any two-field swap between two entries of a list.
fn swap_in<T, F>(list: &mut [T], a: &Index, b: &Index, field: impl Fn(&mut T) -> &mut F)
where
    F: Clone,
{
    if !list.is_empty() {
        let (a, b) = (a.index(list.len()), b.index(list.len()));
        let (first, second) = (field(&mut list[a]).clone(), field(&mut list[b]).clone());
        *field(&mut list[a]) = second;
        *field(&mut list[b]) = first;
    }
}

fn ports(function: &mut Function, role: Role) -> &mut Vec<Port> {
    if role == Role::Output {
        &mut function.outputs
    } else {
        &mut function.inputs
    }
}

/// Applies an edit; `fresh` makes the names it brings, `added` is the dtype and shape of what it adds.
fn apply(function: &mut Function, edit: &Edit, fresh: usize, added: &str) {
    let pick = |len: usize, at: &Index| (len > 0).then(|| at.index(len));
    match edit {
        Edit::SwapPlaces(Role::State, a, b) => swap_in(&mut function.states, a, b, |s| s),
        Edit::SwapPlaces(role, a, b) => swap_in(ports(function, *role), a, b, |p| p),
        Edit::SwapNames(Role::State, a, b) => swap_in(&mut function.states, a, b, |s| &mut s.name),
        Edit::SwapNames(role, a, b) => swap_in(ports(function, *role), a, b, |p| &mut p.name),
        Edit::SwapSources(a, b) => swap_in(&mut function.states, a, b, |s| &mut s.source),
        Edit::Rename(Role::State, at) => {
            if let Some(at) = pick(function.states.len(), at) {
                function.states[at].name = format!("fresh{fresh}");
            }
        }
        Edit::Rename(role, at) => {
            let list = ports(function, *role);
            if let Some(at) = pick(list.len(), at) {
                list[at].name = format!("fresh{fresh}");
            }
        }
        Edit::Dtype(Role::State, at) => {
            if let Some(at) = pick(function.states.len(), at) {
                function.states[at].dtype = "uint8".into();
            }
        }
        Edit::Dtype(role, at) => {
            let list = ports(function, *role);
            if let Some(at) = pick(list.len(), at) {
                list[at].dtype = "uint8".into();
            }
        }
        Edit::Dynamic(Role::State, at) => {
            if let Some(at) = pick(function.states.len(), at) {
                function.states[at].shape.iter_mut().for_each(|d| *d = None);
            }
        }
        Edit::Dynamic(role, at) => {
            let list = ports(function, *role);
            if let Some(at) = pick(list.len(), at) {
                list[at].shape.iter_mut().for_each(|d| *d = None);
            }
        }
        Edit::Access(at) => {
            if let Some(at) = pick(function.states.len(), at) {
                function.states[at].access = Access::Unused;
            }
        }
        Edit::Remove(Role::State, at) => {
            if let Some(at) = pick(function.states.len(), at) {
                function.states.remove(at);
            }
        }
        Edit::Remove(role, at) => {
            let list = ports(function, *role);
            if let Some(at) = pick(list.len(), at) {
                list.remove(at);
            }
        }
        Edit::Add(Role::State, at) => {
            let at = at.index(function.states.len() + 1);
            function
                .states
                .insert(at, state(&format!("fresh{fresh}=FRESH{fresh}{added}")));
        }
        Edit::Add(role, at) => {
            let source = if *role == Role::Input {
                format!("=fresh{fresh}")
            } else {
                String::new()
            };
            let port = entry(
                &format!("fresh{fresh}{source}{added}"),
                SourceKind::Argument,
            );
            let list = ports(function, *role);
            let at = at.index(list.len() + 1);
            list.insert(at, port);
        }
        Edit::Promote(at) => {
            if let Some(at) = pick(function.inputs.len(), at) {
                let Port {
                    name,
                    dtype,
                    shape,
                    source,
                } = function.inputs.remove(at);
                function.states.push(State {
                    name,
                    dtype,
                    shape,
                    access: Access::ReadWrite,
                    source,
                });
            }
        }
    }
}

/// A model with distinct names and sources, as real ones have.
fn a_model() -> Contract {
    contract("x=x y=y:int32 z=z[1,?]|k0=K0 v0=V0 k1=K1 v1=V1 n=N:int32[]|out logits:float32 ids:int32[?]")
}

/// Any contract with one to four edits of its first function; and small models where all collide.
fn edited() -> impl Strategy<Value = (Contract, Contract)> {
    let base = prop_oneof![Just(a_model()), any_contract()];
    (base, proptest::collection::vec(any_edit(), 0..5)).prop_map(|(old, edits)| {
        let mut new = old.clone();
        for (fresh, edit) in edits.iter().enumerate() {
            if let Some(function) = new.functions.first_mut() {
                apply(function, edit, fresh, ":bool[9]");
            }
        }
        (old, new)
    })
}

fn any_two() -> impl Strategy<Value = (Contract, Contract)> {
    prop_oneof![edited(), (any_contract(), any_contract())]
}

fn in_role<'a>(function: &'a Function, role: Role) -> Vec<Entry<'a>> {
    Entry::all(function)
        .into_iter()
        .filter(|e| e.role == role)
        .collect()
}

fn key<'a>(e: &Entry<'a>) -> impl PartialEq + use<'a> {
    (e.name, e.dtype, e.shape, e.access, e.source)
}

/// Whether a change tells of the place in the old or new list, or of something that shifts it.
fn tells_of(change: &Change, role: Role, position: usize) -> bool {
    use ChangeId::*;
    let promotion = matches!(change.id, InputBecameState | StateBecameInput);
    if promotion && role != Role::Output {
        let (from, to) = if change.id == InputBecameState {
            (Role::Input, Role::State)
        } else {
            (Role::State, Role::Input)
        };
        return (role == from && change.old_positions[0] <= position)
            || (role == to && change.new_positions[0] <= position);
    }
    if change.role.is_some_and(|r| r != role) {
        return false;
    }
    let all = || change.old_positions.iter().chain(&change.new_positions);
    let shifts = matches!(
        change.id,
        InputAdded | InputRemoved | StateAdded | StateRemoved | OutputAdded | OutputRemoved
    );
    if shifts {
        all().any(|&p| p <= position)
    } else {
        all().any(|&p| p == position)
    }
}

/// Checks what a change claims against the two contracts.
fn is_true(change: &Change, old: &Contract, new: &Contract) -> Result<(), TestCaseError> {
    use ChangeId::*;
    let function = |c: &Contract| {
        c.functions
            .iter()
            .find(|f| f.name == change.function)
            .cloned()
    };
    let (old_function, new_function) = (function(old), function(new));
    let (Some(old_function), Some(new_function), Some(role)) =
        (old_function, new_function, change.role)
    else {
        return Ok(());
    };
    let old_role = change.old_role.unwrap_or(role);
    let (olds, news) = (
        in_role(&old_function, old_role),
        in_role(&new_function, role),
    );
    let (before, after) = (
        change
            .old_positions
            .iter()
            .map(|&p| olds.get(p).copied())
            .collect::<Option<Vec<_>>>(),
        change
            .new_positions
            .iter()
            .map(|&p| news.get(p).copied())
            .collect::<Option<Vec<_>>>(),
    );
    let (Some(before), Some(after)) = (before, after) else {
        return Err(TestCaseError::fail(format!(
            "no such positions: {change:?}"
        )));
    };
    match change.id {
        InputRenamed | StateRenamed | OutputRenamed => {
            prop_assert_ne!(before[0].name, after[0].name);
            prop_assert_eq!(change.old.clone(), Some(before[0].shown()));
            prop_assert_eq!(change.new.clone(), Some(after[0].shown()));
        }
        InputAdded | StateAdded | OutputAdded => {
            prop_assert!(before.is_empty());
            prop_assert_eq!(change.subject.as_deref(), Some(after[0].name));
        }
        InputRemoved | StateRemoved | OutputRemoved => {
            prop_assert!(after.is_empty());
            prop_assert_eq!(change.subject.as_deref(), Some(before[0].name));
        }
        InputsReordered | StatesReordered | OutputsReordered => {
            let distinct: HashSet<usize> = change.old_positions.iter().copied().collect();
            prop_assert_eq!(distinct.len(), change.new_positions.len());
            prop_assert!(before.len() > 1);
        }
        DtypeChanged => {
            prop_assert_ne!(before[0].dtype, after[0].dtype);
            prop_assert_eq!(change.old.as_deref(), Some(before[0].dtype));
            prop_assert_eq!(change.new.as_deref(), Some(after[0].dtype));
        }
        RankChanged => prop_assert_ne!(before[0].shape.len(), after[0].shape.len()),
        ExtentChanged | BecameStatic | BecameDynamic => {
            prop_assert_eq!(before[0].shape.len(), after[0].shape.len());
            prop_assert_ne!(before[0].shape, after[0].shape);
        }
        AccessChanged => prop_assert_ne!(before[0].access, after[0].access),
        SourceChanged => {
            prop_assert!(before.iter().zip(&after).all(|(b, a)| b.is_resourced(a)));
        }
        SourceDtypeChanged | SourceAliasChanged => {
            prop_assert!(before[0].has_source_of(&after[0]));
        }
        SourceOnOneSide => {
            let one_sided =
                |(b, a): (&Entry<'_>, &Entry<'_>)| b.source.is_some() != a.source.is_some();
            prop_assert!(before.iter().zip(&after).all(one_sided));
        }
        InputBecameState | StateBecameInput => prop_assert_ne!(before[0].role, after[0].role),
        _ => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_contract_does_not_differ_from_itself(contract in any_contract()) {
        prop_assert_eq!(diff(&contract, &contract), vec![]);
    }

    #[test]
    fn equal_contracts_and_no_others_have_no_changes((old, new) in any_two()) {
        prop_assert_eq!(diff(&old, &new).is_empty(), old == new);
    }

    #[test]
    fn every_difference_is_told((old, new) in any_two()) {
        let changes = diff(&old, &new);
        for before in &old.functions {
            let Some(after) = new.functions.iter().find(|f| f.name == before.name) else {
                let gone = |c: &&Change| matches!(c.id, ChangeId::FunctionRemoved | ChangeId::FunctionRenamed);
                prop_assert!(changes.iter().filter(gone).any(|c| c.old.as_deref() == Some(before.name.as_str())));
                continue;
            };
            for role in Role::ALL {
                let (olds, news) = (in_role(before, role), in_role(after, role));
                for position in 0..olds.len().max(news.len()) {
                    if olds.get(position).map(key) == news.get(position).map(key) {
                        continue;
                    }
                    let told = changes.iter().any(|c| c.function == after.name && tells_of(c, role, position));
                    prop_assert!(told, "{role} {position}: {:#?}\n{:?}\n{:?}", changes, olds, news);
                }
            }
        }
    }

    #[test]
    fn what_is_told_is_true((old, new) in any_two()) {
        for change in diff(&old, &new) {
            is_true(&change, &old, &new)?;
        }
    }

    #[test]
    fn one_edit_is_one_change(edit in any_edit()) {
        let (old, mut new) = (a_model(), a_model());
        apply(&mut new.functions[0], &edit, 0, ":bool[9]");
        let changes = diff(&old, &new);
        prop_assert_eq!(changes.len(), usize::from(old != new), "{:#?}", lines(&changes));
    }

    // Where all entries look alike: else an exchange of sources is rightly told with the dtypes and
    // shapes that came along. And without promotions and names that move alone: in the company of others
    // these have more than one shortest telling.
    #[test]
    fn two_edits_are_told_in_at_most_two_changes(
        edits in proptest::collection::vec(any_edit(), 0..3),
    ) {
        let old = contract("x=x y=y z=z|k0=K0 v0=V0 k1=K1 v1=V1 n=N|out logits ids");
        let mut new = old.clone();
        let edits: Vec<Edit> = edits.into_iter().filter(|e| !matches!(e, Edit::Promote(_) | Edit::SwapNames(..))).collect();
        for (fresh, edit) in edits.iter().enumerate() {
            apply(&mut new.functions[0], edit, fresh, "");
        }
        let changes = diff(&old, &new);
        prop_assert!(changes.len() <= edits.len(), "{:#?}", lines(&changes));
    }

    #[test]
    fn levels_are_nested_and_changes_survive_json((old, new) in any_two()) {
        for change in diff(&old, &new) {
            prop_assert!(change.counts_at(Level::Strict));
            prop_assert!(change.counts_at(Level::Binding) || !change.counts_at(Level::Runtime));
            let json = serde_json::to_string(&change).unwrap();
            prop_assert_eq!(serde_json::from_str::<Change>(&json).unwrap(), change);
        }
    }
}
