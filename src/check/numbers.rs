//! Numbers and indices as people read them.

/// A number with up to six significant digits.
pub fn number(v: f64) -> String {
    if v.is_nan() {
        return "NaN".into();
    }
    if v.is_infinite() {
        return if v > 0.0 { "inf" } else { "-inf" }.into();
    }
    if v == v.trunc() && v.abs() < 1e15 {
        return format!("{}", v.trunc() + 0.0);
    }
    let exponent = v.abs().log10().floor() as i32;
    if (-5..9).contains(&exponent) {
        let digits = usize::try_from(5 - exponent).unwrap_or(0);
        let text = format!("{v:.digits$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').into(),
            false => text,
        };
    }
    let text = format!("{v:.5e}");
    match text.split_once('e') {
        Some((mantissa, power)) => {
            let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
            format!("{mantissa}e{power}")
        }
        None => text,
    }
}

/// `0`, `0, 1`, `0, 2, 4`, `0 to 7`; long lists are cut.
pub fn indices(list: &[usize]) -> String {
    let run = list.windows(2).all(|w| w[1] == w[0] + 1);
    match list {
        [] => "none".into(),
        [only] => only.to_string(),
        [first, .., last] if run && list.len() > 4 => format!("{first} to {last}"),
        _ if list.len() > 8 => {
            let head: Vec<String> = list[..8].iter().map(ToString::to_string).collect();
            format!("{} and {} more", head.join(", "), list.len() - 8)
        }
        _ => {
            let all: Vec<String> = list.iter().map(ToString::to_string).collect();
            all.join(", ")
        }
    }
}

/// `row 0`, `rows 0 and 1`, `no row`.
pub fn rows(list: &[usize]) -> String {
    match list {
        [] => "no row".into(),
        [only] => format!("row {only}"),
        _ => format!("rows {}", indices(list)),
    }
}

/// `[1, 4]`
pub fn shape(dims: &[usize]) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact_where_they_can_be() {
        let shown: Vec<String> = [
            0.3125,
            0.30000001,
            -10000.0,
            2.7,
            255.0,
            -0.0,
            1e-7,
            1.5e20,
            123456.78,
            f64::NAN,
        ]
        .iter()
        .map(|v| number(*v))
        .collect();
        assert_eq!(
            shown,
            ["0.3125", "0.3", "-10000", "2.7", "255", "0", "1e-7", "1.5e20", "123457", "NaN"]
        );
    }

    #[test]
    fn lists_of_rows_are_short() {
        assert_eq!(rows(&[]), "no row");
        assert_eq!(rows(&[3]), "row 3");
        assert_eq!(rows(&[0, 1]), "rows 0, 1");
        assert_eq!(rows(&[0, 1, 2, 3, 4]), "rows 0 to 4");
        assert_eq!(rows(&[0, 3, 7]), "rows 0, 3, 7");
        assert_eq!(
            rows(&[0, 2, 4, 6, 8, 10, 12, 14, 16]),
            "rows 0, 2, 4, 6, 8, 10, 12, 14 and 1 more"
        );
    }
}
