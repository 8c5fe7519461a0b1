//! Cells sent to a Ray cluster.

use super::{Group, Records, Trace, Work};
use crate::upgrade::ray;
use crate::upgrade::record::Record;
use crate::upgrade::resolve::{Place, Resolved};

impl Work<'_> {
    /// Every cell as a task of a Ray cluster, which makes the environments where they are needed.
    pub(super) fn send(
        &self,
        groups: Vec<Group>,
        traces: &[Trace],
        address: Option<&str>,
        records: &mut Records,
    ) {
        let mut cells = Vec::new();
        let mut tasks = Vec::new();
        for group in groups {
            let Ok(resolved) = &self.columns[group.environment].by_set[group.set] else {
                continue;
            };
            for model in group.cells.into_iter().rev() {
                let mut task = self.task(tasks.len(), model, resolved);
                task.records = group.environment == 0;
                task.trace = match &traces[model] {
                    Trace::Done(trace) => trace.clone(),
                    _ => Some(self.plan.scratch.join(format!("{model}.trace.safetensors"))),
                };
                tasks.push(task);
                cells.push((model, group.environment));
            }
        }
        if tasks.is_empty() {
            return;
        }
        for (model, environment) in &cells {
            let name = &self.plan.models[*model].name;
            self.watcher.begin(name, self.label(*environment));
        }
        let mut take = |id: usize, record: Record| {
            let (model, environment) = cells[id];
            let trace = tasks[id].trace.as_deref().filter(|_| tasks[id].records);
            self.done(model, environment, &record, trace);
            if self.is_ours(model, environment) {
                records[model][environment] = Some(record);
            }
        };
        let ended = ray::run(&tasks, &self.plan.python, address, |id, answer| {
            take(id, answer.unwrap_or_else(Record::not_begun));
        });
        if let Err(error) = ended {
            let ours = cells.into_iter().filter(|(m, e)| self.is_ours(*m, *e));
            for (model, environment) in ours {
                let slot = &mut records[model][environment];
                slot.get_or_insert_with(|| Record::not_begun(error.clone()));
            }
        }
    }

    fn task(&self, id: usize, model: usize, resolved: &Resolved) -> ray::Task {
        let (packages, python) = match &resolved.place {
            Place::Existing(python) => (Vec::new(), Some(python.clone())),
            Place::Locked { lock, indexes, .. } => {
                let lines = lock.lines();
                let lines = lines.lines().map(str::to_owned);
                (indexes.iter().cloned().chain(lines).collect(), None)
            }
        };
        let named = &self.plan.models[model];
        ray::Task {
            id,
            model,
            records: false,
            trace: None,
            packages,
            memory: self.plan.limits.max_memory,
            cell: ray::Cell {
                recipe: std::path::absolute(&named.file).unwrap_or_else(|_| named.file.clone()),
                function: named.function.clone(),
                steps: named.steps,
                atol: named.atol,
                rtol: named.rtol,
                python,
                debug_info: self.plan.debug_info,
                timeout: self.plan.limits.timeout.as_secs_f64(),
                max_memory: self.plan.limits.max_memory,
            },
        }
    }
}
