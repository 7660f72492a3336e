mod busy;
mod fake;
mod levels;
mod looks;
mod members;
mod stress;
mod waiting;
