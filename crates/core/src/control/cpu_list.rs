//! Lists of CPUs in the kernel's words. Source: `lib/bitmap-str.c bitmap_parselist` (Linux 7.3), its plain forms.

use alloc::vec::Vec;

/// Larger numbers are taken for a mistake.
const CPU_MAX: u32 = 1 << 16;

/// Numbers of a list as the kernel writes it, such as `0-2,5`: in order, each once. `None` for what is no list.
#[must_use]
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last > CPU_MAX {
            return None;
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::cpu_list;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(cpu_list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(cpu_list("5,1-2,2"), Some(vec![1, 2, 5]));
        assert_eq!((cpu_list(""), cpu_list("2-1"), cpu_list("x")), (Some(vec![]), None, None));
        assert_eq!((cpu_list("65536"), cpu_list("65537")), (Some(vec![65_536]), None));
        assert_eq!((cpu_list("0-99999999"), cpu_list("-1"), cpu_list("1-")), (None, None, None));
    }
}
