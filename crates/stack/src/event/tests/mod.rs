mod busy;
mod external;
mod fake;
mod levels;
mod looks;
mod members;
mod stress;
mod waiting;
