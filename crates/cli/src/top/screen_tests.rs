//! A view that panics, on a terminal.

use std::process::Command;

use super::*;

/// Not a test by itself: what the next one runs on a terminal.
#[test]
#[ignore = "it panics with the terminal in hand; a_panic_gives_the_terminal_back runs it"]
fn a_view_that_panics() {
    let mut screen = Screen::take(&Traced::default()).expect("it runs on a terminal");
    let _ = screen.draw(|frame| {
        frame.render_widget("the view", frame.area());
    });
    let _ = screen.draw(|_| panic!("a mistake of the view"));
}

/// A server of tmux of its own, gone with the test.
struct Tmux(String);

impl Tmux {
    fn run(&self, args: &[&str]) -> String {
        // A user such as `nobody` has no shell that tmux could run a command with.
        let tmux = || Command::new("tmux").env("SHELL", "/bin/sh").args(["-L", &self.0]).args(args).output();
        let output = tmux().expect("tmux is installed");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.0, "kill-server"]).output();
    }
}

#[test]
fn a_panic_gives_the_terminal_back() {
    if Command::new("tmux").arg("-V").output().is_err() {
        napier_testkit::skip!("a_panic_gives_the_terminal_back", "tmux is not installed");
        return;
    }
    let tmux = Tmux(format!("napier-panic-{}", std::process::id()));
    let program = std::env::current_exe().expect("it runs");
    let run = format!("{} --ignored --exact --nocapture top::screen::tests::a_view_that_panics", program.display());
    let look = "stty -a | tr ' ;' '\\n\\n' | grep -x -e echo -e icanon -e isig | wc -l";
    let line = format!("{run}; echo status $?; echo lines $({look}); cat");
    tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "50", &line]);
    let until = Instant::now() + Duration::from_secs(30);
    let screen = loop {
        let screen = tmux.run(&["capture-pane", "-p"]);
        if screen.contains("lines ") {
            break screen;
        }
        assert!(Instant::now() < until, "{screen}");
        std::thread::sleep(Duration::from_millis(30));
    };
    assert!(screen.contains("a mistake of the view") && screen.contains("status 101"), "{screen}");
    assert!(!screen.starts_with("the view"), "{screen}");
    assert!(screen.lines().any(|line| line.trim() == "lines 3"), "{screen}");
}
