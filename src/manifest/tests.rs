use std::path::Path;

use super::Manifest;

/// What is said of a manifest, without the name of its file.
fn told(text: &str, file: &str) -> String {
    let error = Manifest::parse(text, Path::new(file))
        .map(|_| ())
        .unwrap_err();
    let error = error.to_string();
    let told = error.strip_prefix(&format!("{file}:"));
    told.unwrap_or_else(|| panic!("{error}")).to_owned()
}

const MODEL: &str = "\n[models.a]\nrecipe = 'r.py:f'\n[models.b]\nrecipe = 'r.py:g'\n";

#[test]
fn an_error_names_the_line_of_its_key() {
    let cases = [
        // What TOML says itself.
        ("level = 'severe'", "1: unknown variant `severe`"),
        ("timeout = 1\npython = 3", "2: invalid type: integer `3`"),
        ("\n[models.a]\nlevel = 'strict'", "2: missing field `recipe`"),
        ("MODELsteps = -1", "6: invalid value: integer `-1`"),
        ("MODEL\nrequirements = [\n'a',\n7]", "9: invalid type: integer `7`"),
        ("MODEL[[models.b.allow]]\nid = 'write-lost'", "6: missing field `reason`"),
        ("\n[[upgrade.env]]\npython = '3.12'", "2: missing field `name`"),
        // Keys that nothing reads.
        ("MODELstep = 1", "6: unknown key models.b.step"),
        ("MODEL[[models.b.allow]]\nid = 'write-lost'\nwhy = ''", "8: unknown key models.b.allow.why"),
        ("\n[[upgrade.env]]\nname = 'x'\npip = 1", "4: unknown key upgrade.env.pip"),
        ("MODEL[models]\nc = 'r.py:f'", "7: models.c: expected a table"),
        ("\n[models]\nc = 'r.py:f'", "3: models.c: expected a table"),
        // What only we know of values.
        ("timeout = 1\nmax_memory = '8 elephants'", "2: max_memory: \"8 elephants\": expected a size"),
        ("level = 'strict'\ntimeout = -1.0", "2: timeout: expected a positive number"),
        ("MODEL[models.c]\nlevel = 'strict'\nrecipe = 'r.py'", "8: models.c.recipe: "),
        ("MODEL\n\nsteps = 0", "8: models.b.steps: expected"),
        ("MODELatol = 0.1\nrtol = -1.0", "7: models.b.rtol: expected"),
        (
            "MODELallow = [\n{ id = 'write-lost', reason = 'x' },\n{ id = 'write-lost', reason = ' ' }]",
            "8: models.b.allow: write-lost needs a reason",
        ),
        (
            "MODEL[[models.b.allow]]\nreason = 'x'\nid = 'write-lost'\n[[models.b.allow]]\nreason = 'x'\nid = 'lost'",
            "11: models.b.allow: no finding has the id \"lost\"",
        ),
        (
            "MODEL[[upgrade.env]]\nname = 'x'\nexisting = 'v'\n[[upgrade.env]]\npython = '3.12'\nname = ' '",
            "11: upgrade.env: expected a name",
        ),
        (
            "MODEL[[upgrade.env]]\nname = 'x'\nexisting = 'v'\nfile = 'r.txt'",
            "7: upgrade.env \"x\": expected one of requirements, file and existing",
        ),
        (
            "MODEL[[upgrade.env]]\nname = 'x'\npython = '3.12'\nrequirements = ['?']",
            "9: upgrade.env \"x\": ",
        ),
    ];
    for (text, expected) in cases {
        let text = text.replace("MODEL", MODEL);
        let found = told(&text, "coreai-audit.toml");
        assert!(found.starts_with(expected), "{text}\n{found}\n{expected}");
        // The same in the table of another file, three lines further down.
        let (line, message) = expected.split_once(": ").unwrap();
        let line = line.parse::<usize>().unwrap() + 3;
        let inner = text
            .replace("[[models", "[[tool.coreai-audit.models")
            .replace("\n[models", "\n[tool.coreai-audit.models")
            .replace("[[upgrade", "[[tool.coreai-audit.upgrade");
        let whole = format!("[project]\nname = 'p'\n[tool.coreai-audit]\n{inner}");
        let found = told(&whole, "pyproject.toml");
        let expected = format!("{line}: {message}");
        assert!(found.starts_with(&expected), "{whole}\n{found}\n{expected}");
    }
}
