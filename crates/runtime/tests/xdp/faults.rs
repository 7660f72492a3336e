//! What goes wrong, and that nothing is left behind.
